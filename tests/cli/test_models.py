"""Models of ten years: they are described without being run, give the answers that MXNet gave, and the cascade finds the faces."""


def test_every_model_is_described(gluino, shared):
    for symbol in sorted(shared.rglob("*-symbol.json")):
        report = gluino("inspect", symbol, "--json").json
        assert report["written_by"].startswith("MXNet") or report["written_by"] == "not said"
        assert report["unsupported"] or "problem" in report or report["inputs"], symbol


def test_what_other_forks_need_is_named(gluino, shared):
    report = gluino("inspect", shared / "bmxnet-binary-mnist", "--json").json
    assert "QConvolution" in [missing["operator"] for missing in report["unsupported"]]


def test_recorded_answers_come_out(gluino, shared):
    checked = 0
    for recorded in sorted(shared.rglob("*-io.npz")):
        gluino("verify", str(recorded).replace("-io.npz", ""), "--against", recorded, "--rtol", "1e-3", "--atol", "1e-4")
        checked += 1
    assert checked >= 10


def test_the_cascade_finds_the_faces(gluino, shared, tmp_path):
    folder = shared / "mtcnn"
    report = gluino("faces", *(folder / f"det{k}" for k in (1, 2, 3)), folder / "test2.jpg", "-o", tmp_path / "faces.png", "--json").json
    middles = sorted(((f["box"][0] + f["box"][2]) / 2, (f["box"][1] + f["box"][3]) / 2) for f in report["faces"])
    for (x, y), (wanted_x, wanted_y) in zip(middles, [(80, 65), (253, 83), (403, 85), (523, 68)], strict=True):  # as one sees them
        assert abs(x - wanted_x) < 15 and abs(y - wanted_y) < 15
    for face in report["faces"]:
        assert face["score"] > 0.99
        left, top, right, bottom = face["box"]
        assert all(left <= x <= right and top <= y <= bottom for x, y in face["points"])
    assert (tmp_path / "faces.png").stat().st_size > 10000
