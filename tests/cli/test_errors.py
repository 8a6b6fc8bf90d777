"""Wrong input: the message names the mistake, and the exit code says whose it is: 2 the command line's, 1 everything else's."""
import json

import pytest


def test_a_file_that_is_not_there(gluino, tmp_path):
    assert "there is no" in gluino("inspect", tmp_path / "nothing", code=1).err
    assert "nothing.npy" in gluino("inspect", tmp_path / "nothing.npy", code=1).err


def test_a_wrong_command_line(gluino, models):
    gluino(code=2)
    gluino("fly", code=2)
    gluino("inspect", code=2)
    gluino("inspect", models / "net", "--no-such-option", code=2)
    assert "name=1,3,224,224" in gluino("inspect", models / "net", "--shape", "data", code=2).err
    assert "name=1,3,224,224" in gluino("inspect", models / "net", "--shape", "data=1,x", code=2).err
    assert "name=int32" in gluino("run", models / "net", "--dtype", "data=int7", code=2).err


def test_a_wrong_shape(gluino, models):
    message = gluino("inspect", models / "net", "--shape", "data=1,4,8,8", code=1).err
    assert "Convolution" in message and "4" in message
    assert "Convolution" in gluino("verify", models / "net", "--shape", "data=1,4,8,8", code=1).err
    assert "is not known" in gluino("verify", models / "net", code=2).err


def test_an_input_that_the_model_does_not_have(gluino, models):
    for command, option, value in (("run", "--input", f"dat={models / 'x.npy'}"), ("bench", "--shape", "dat=1,3,8,8"), ("inspect", "--shape", "dat=1,3,8,8")):
        message = gluino(command, models / "net", option, value, code=2).err
        assert "no input 'dat'" in message and "did you mean 'data'?" in message
    assert "input 'data' is not given" in gluino("run", models / "net", code=2).err


def test_a_folder_in_place_of_a_file(gluino, models, tmp_path):
    assert "folder without a model" in gluino("inspect", tmp_path, code=1).err
    assert gluino("run", models / "net", "--input", tmp_path, code=1).err.startswith("gluino: ")
    assert gluino("run", models / "net", "-i", models / "x.npy", "-o", tmp_path, code=1).err.startswith("gluino: ")
    gluino("inspect", models)  # a folder with one model is that model


@pytest.mark.parametrize("name", ["net-symbol.json", "net-0000.params", "x.npy", "one.gluino"])
def test_a_truncated_file(gluino, models, tmp_path, name):
    for file in models.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    gluino("convert", models / "net", "-o", tmp_path / "one.gluino")
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:len(whole) * 2 // 3])
    model = tmp_path / (name if name == "one.gluino" else "net")
    error = gluino("run", model, "--input", tmp_path / "x.npy", code=1).err
    assert error.startswith("gluino: ") and name in error


def test_errors_as_json(gluino, tmp_path):
    answer = gluino("inspect", tmp_path / "nothing", "--json", code=1)
    assert json.loads(answer.out)["error"] in answer.err
    for wrong in (("inspect", "--json"), ("run", "net", "--no-such-option", "--json"), ("run", "--top", "many", "--json")):
        answer = gluino(*wrong, code=2)
        assert json.loads(answer.out)["error"] in answer.err


def test_weights_that_are_not_there(gluino, models, tmp_path):
    (tmp_path / "net-symbol.json").write_bytes((models / "net-symbol.json").read_bytes())
    assert "--random-weights" in gluino("run", tmp_path, "-i", models / "x.npy", code=1).err
    gluino("run", tmp_path, "--random-weights", "-i", models / "x.npy")
