"""mx.contrib and gluon.contrib, metrics' values, stores of one's own, images with boxes."""
import collections
import json

import numpy as np
import pytest

import gluino as mx
from gluino import autograd, gluon, nd, sym


# ---- metrics

def test_metrics_have_global_values_and_configurations():
    rng = np.random.RandomState(0)
    batches = [(nd.array(rng.randint(0, 2, 8)), nd.softmax(nd.array(rng.normal(size=(8, 2))))) for _ in range(4)]
    for metric in (mx.metric.Accuracy(), mx.metric.F1(), mx.metric.F1(average="micro"), mx.metric.MCC(average="micro"), mx.metric.CrossEntropy(),
                   mx.metric.PCC(), mx.metric.Perplexity(None), mx.metric.Loss()):
        whole = mx.metric.create(json.dumps(metric.get_config()))
        assert type(whole) is type(metric) and whole.get_config() == metric.get_config()
        for label, pred in batches:
            metric.reset_local()
            metric.update([label], [pred])
            whole.update([label], [pred])
        assert metric.get_global() == whole.get() and metric.get_global_name_value() == whole.get_name_value()
        last = mx.metric.create(metric.get_config())
        last.update(*[[part] for part in batches[-1]])
        assert metric.get() == last.get()
        metric.reset()
        assert np.isnan(metric.get_global()[1])
    composite = mx.metric.CompositeEvalMetric(["acc", "ce"])
    assert mx.metric.create(composite.get_config()).get_config() == composite.get_config()
    assert mx.metric.TopKAccuracy(top_k=3).get_config()["name"] == "top_k_accuracy"
    assert mx.metric.create(mx.metric.TopKAccuracy(top_k=3).get_config()).name == "top_k_accuracy_3"


def test_pearson_over_all_that_was_seen():
    rng = np.random.RandomState(0)
    labels, preds = rng.normal(size=(4, 10)), rng.normal(size=(4, 10))
    micro, macro = mx.metric.PearsonCorrelation(average="micro"), mx.metric.PearsonCorrelation()
    for label, pred in zip(labels, preds):
        micro.update([nd.array(label)], [nd.array(pred)])
        macro.update([nd.array(label)], [nd.array(pred)])
    np.testing.assert_allclose(micro.get()[1], np.corrcoef(labels.ravel(), preds.ravel())[0, 1], rtol=1e-5)
    np.testing.assert_allclose(macro.get()[1], np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(labels, preds)]), rtol=1e-5)


# ---- text

def test_vocabularies_and_embeddings(tmp_path):
    text = mx.contrib.text
    counter = text.utils.count_tokens_from_str(" Life is great ! \n life is good . \n", to_lower=True)
    assert counter == collections.Counter({"life": 2, "is": 2, "great": 1, "!": 1, "good": 1, ".": 1})
    vocab = text.vocab.Vocabulary(counter, most_freq_count=3, min_freq=1, unknown_token="<unk>", reserved_tokens=["<pad>"])
    assert vocab.idx_to_token == ["<unk>", "<pad>", "is", "life", "!"] and vocab.to_indices(["life", "xyz"]) == [3, 0] and vocab.to_tokens(2) == "is"
    with pytest.raises(ValueError, match="invalid"):
        vocab.to_tokens(99)
    path = tmp_path / "vectors.txt"
    path.write_text("2 3\nlife 1 2 3\nis 4 5 6\nlife 7 8 9\n")
    embedding = text.embedding.CustomEmbedding(str(path), vocabulary=vocab)
    np.testing.assert_array_equal(embedding.get_vecs_by_tokens(["life", "nobody"]).asnumpy(), [[1, 2, 3], [0, 0, 0]])
    np.testing.assert_array_equal(embedding.get_vecs_by_tokens("LIFE", lower_case_backup=True).asnumpy(), [1, 2, 3])
    embedding.update_token_vectors("is", nd.array([0, 0, 1]))
    both = text.embedding.CompositeEmbedding(vocab, [embedding, embedding])
    assert both.idx_to_vec.shape == (5, 6) and both.get_vecs_by_tokens("is").asnumpy().tolist() == [0, 0, 1] * 2
    with pytest.raises(OSError, match="nothing is downloaded"):
        text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path))
    assert "glove.6B.50d.txt" in text.embedding.get_pretrained_file_names("glove")


def test_wikitext_from_files(tmp_path):
    (tmp_path / "wiki.train.tokens").write_text(" = head = \n\n a b c a b \n")
    data = gluon.contrib.data.text.WikiText2(root=str(tmp_path), seq_len=3)
    (x, y), words = data[0], data.vocabulary.idx_to_token
    assert len(data) == 3 and [words[i] for i in x.asnumpy()] == ["=", "head", "="] and [words[i] for i in y.asnumpy()] == ["head", "=", "<eos>"]
    with pytest.raises(OSError, match="wiki.valid.tokens"):
        gluon.contrib.data.text.WikiText2(root=str(tmp_path), segment="validation")


# ---- other parts of mx.contrib

def test_gradients_as_before_version_1():
    def f(x, y):
        return x * y + x
    gradients, value = mx.contrib.autograd.grad_and_loss(f)(nd.array([2.0]), nd.array([3.0]))
    assert value.asscalar() == 8 and [g.asscalar() for g in gradients] == [4, 2]
    assert mx.contrib.autograd.grad(f, argnum=1)(nd.array([2.0]), nd.array([3.0]))[0].asscalar() == 2


def test_a_loader_as_an_iterator():
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(np.arange(10, dtype="float32").reshape(5, 2), np.arange(5)), 2)
    data = mx.contrib.io.DataLoaderIter(loader)
    for _ in range(2):
        batches = list(data)
        assert [b.pad for b in batches] == [0, 0, 1] and batches[2].data[0].asnumpy().tolist() == [[8, 9], [0, 0]]
        data.reset()


def test_symbols_in_mixed_precision():
    amp = mx.contrib.amp
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
    net = sym.softmax(sym.BatchNorm(net, name="bn") + net)
    made = amp.convert_symbol(net, "float16")
    text = made.tojson()
    assert "amp_cast" in text and "amp_multicast" in text and sorted(made.list_inputs()) == sorted(net.list_inputs())
    args = {n: nd.random.normal(shape=s) for n, s in zip(net.list_arguments(), net.infer_shape(data=(2, 3))[0])}
    aux = {"bn_moving_mean": nd.zeros((4,)), "bn_moving_var": nd.ones((4,))}
    results = [s.bind(mx.cpu(), args, aux_states=aux).forward()[0] for s in (net, made)]
    assert results[1].dtype == np.float32
    np.testing.assert_allclose(results[1].asnumpy(), results[0].asnumpy(), rtol=1e-2, atol=1e-3)  # float16 has 11 bits
    block = gluon.nn.HybridSequential()
    block.add(gluon.nn.Dense(5), gluon.nn.Dense(2))
    block.initialize()
    block.hybridize()
    x = nd.random.normal(shape=(2, 3))
    expected = block(x)
    converted = amp.convert_hybrid_block(block, "float16")
    np.testing.assert_allclose(converted(x).astype("float32").asnumpy(), expected.asnumpy(), rtol=1e-2, atol=1e-3)


def test_a_trainer_skips_steps_that_overflow():
    amp = mx.contrib.amp
    net = gluon.nn.Dense(1, use_bias=False)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    amp.init_trainer(trainer)
    x = nd.ones((1, 2))
    for factor, after in ((float("inf"), 1.0), (1.0, 0.0)):
        with autograd.record():
            loss = net(x) * factor
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(1)
        assert net.weight.data().asnumpy().tolist() == [[after] * 2]
    assert trainer._amp_loss_scaler.loss_scale == 2.0**15


def test_what_is_not_here_says_so():
    for call in (lambda: mx.rtc.CudaModule("x"), lambda: mx.library.load("nothing.so"), lambda: mx.kvstore.kvstore_server.KVStoreServer(None).run()):
        with pytest.raises(mx.MXNetError):
            call()


# ---- cells of gluon.contrib

@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_convolutional_cells(axes, kind):
    make = getattr(gluon.contrib.rnn, f"Conv{axes}D{kind}Cell")
    cell = make((3, *(6,) * axes), 4, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)
    cell.initialize()
    x = nd.random.normal(shape=(2, 5, 3, *(6,) * axes))
    outputs, states = cell.unroll(5, x, layout="NTC", merge_outputs=True)
    assert outputs.shape == (2, 5, 4, *(6,) * axes) and all(s.shape == (2, 4, *(6,) * axes) for s in states)
    cell.hybridize()
    again, _ = cell.unroll(5, x, begin_state=cell.begin_state(batch_size=2), layout="NTC", merge_outputs=True)
    np.testing.assert_allclose(again.asnumpy(), outputs.asnumpy(), rtol=1e-5, atol=1e-6)


def test_dynamic_unroll_is_unroll():
    cell = gluon.contrib.rnn.LSTMPCell(6, 3)
    cell.initialize()
    x, length = nd.random.normal(shape=(4, 2, 5)), nd.array([2, 4])
    begin = cell.begin_state(batch_size=2)
    for lengths in (None, length):
        expected, expected_states = cell.unroll(4, x, begin, layout="TNC", merge_outputs=True, valid_length=lengths)
        found, states = gluon.contrib.rnn.dynamic_unroll(cell, x, begin, layout="TNC", valid_length=lengths)
        for a, b in zip([found, *states], [expected, *expected_states]):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)


def test_deformable_convolutions():
    """Without offsets they are convolutions; trained, hybridized and exported they stay themselves."""
    x = nd.random.normal(shape=(2, 4, 7, 6))
    for layer in (gluon.contrib.cnn.DeformableConvolution(3, kernel_size=3, padding=1, num_deformable_group=2),
                  gluon.contrib.cnn.ModulatedDeformableConvolution(3, kernel_size=3, padding=1)):
        layer.initialize(mx.init.Normal(0.1))
        out = layer(x)
        weight = layer.deformable_conv_weight.data()
        plain = nd.Convolution(x, weight, layer.deformable_conv_bias.data(), kernel=(3, 3), pad=(1, 1), num_filter=3)
        inside = slice(1, -1)  # at the border the unmasked kind reads the last element where the other sees zeros
        np.testing.assert_allclose(out.asnumpy()[:, :, inside, inside], plain.asnumpy()[:, :, inside, inside], rtol=1e-4, atol=1e-5)
        layer.offset_weight.set_data(nd.random.normal(scale=0.1, shape=layer.offset_weight.shape))
        expected = layer(x)
        with autograd.record():
            loss = (layer(x) ** 2).sum()
        loss.backward()
        assert all(abs(p.grad()).sum().asscalar() > 0 for p in layer.collect_params().values())
        layer.hybridize()
        np.testing.assert_allclose(layer(x).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
        layer.export("deformable")
        again = gluon.SymbolBlock.imports("deformable-symbol.json", ["data"], "deformable-0000.params")
        np.testing.assert_allclose(again(x).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


# ---- stores

def test_a_store_of_ones_own():
    @mx.kvstore.KVStoreBase.register
    class Doubling(mx.kvstore.base.TestStore):
        def pushpull(self, key, value, out=None, priority=0):
            super().pushpull(key, value, out)
            for each in out or value:
                each *= 2
    store = mx.kv.create("doubling")
    parts = [nd.ones((2,)), nd.ones((2,), ctx=mx.cpu(1))]
    store.pushpull(0, parts)
    assert [p.asnumpy().tolist() for p in parts] == [[4, 4]] * 2 and not store.is_capable("optimizer")
    local = mx.kv.create("local")
    local.init("w", nd.array([[1, 2], [3, 4], [5, 6]]))
    out = nd.zeros((3, 2)).tostype("row_sparse")
    local.row_sparse_pull("w", out=out, row_ids=nd.array([2, 0]))
    assert out.asnumpy().tolist() == [[1, 2], [0, 0], [5, 6]] and local.is_capable("optimizer")


# ---- images with boxes

def test_boxes_follow_their_image():
    picture = np.zeros((40, 60, 3), "uint8")
    picture[10:20, 30:45] = 255  # a white object
    label = np.array([[0, 30 / 60, 10 / 40, 45 / 60, 20 / 40]], "float32")
    changes = [mx.image.DetHorizontalFlipAug(1.0), mx.image.DetRandomPadAug(area_range=(1.0, 2.0)), mx.image.DetRandomCropAug(min_object_covered=0.9),
               mx.image.DetBorrowAug(mx.image.ForceResizeAug((80, 50)))]
    for change in changes:
        out, boxes = change(nd.array(picture, dtype="uint8"), label)
        height, width = out.shape[:2]
        (_, left, top, right, bottom), = boxes
        white = np.argwhere(out.asnumpy()[:, :, 0] > 200)
        found = [white[:, 1].min() / width, white[:, 0].min() / height, (white[:, 1].max() + 1) / width, (white[:, 0].max() + 1) / height]
        np.testing.assert_allclose([left, top, right, bottom], found, atol=0.04)  # pixels at the edge are blended
        assert json.loads(change.dumps())[0] == type(change).__name__.lower() if isinstance(change.dumps(), str) else change.dumps()


def test_batches_of_images_with_boxes(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.png").write_bytes(mx.image.imencode(np.full((20, 30, 3), 60 * i, "uint8"), img_fmt=".png"))
    labels = [[2, 5, 0, 0.1, 0.1, 0.5, 0.5], [2, 5, 1, 0.2, 0.2, 0.9, 0.9, 0, 0.3, 0.3, 0.4, 0.4], [2, 5, 1, 0, 0, 1, 1]]
    data = mx.image.ImageDetIter(2, (3, 10, 15), imglist=[[np.array(label), f"{i}.png"] for i, label in enumerate(labels)], path_root=str(tmp_path))
    assert data.provide_label[0].shape == (2, 2, 5)
    batches = list(data)
    assert [b.pad for b in batches] == [0, 1] and batches[0].data[0].shape == (2, 3, 10, 15)
    np.testing.assert_allclose(batches[0].label[0].asnumpy(), [[[0, 0.1, 0.1, 0.5, 0.5], [-1] * 5], [[1, 0.2, 0.2, 0.9, 0.9], [0, 0.3, 0.3, 0.4, 0.4]]])
    data.reshape(label_shape=(4, 5))
    data.reset()
    assert data.next().label[0].shape == (2, 4, 5)
    assert next(data.draw_next()).shape == (10, 15, 3)


def _boxes(folder, labels, size=(20, 30)):
    writer = mx.recordio.MXIndexedRecordIO(str(folder / "boxes.idx"), str(folder / "boxes.rec"), "w")
    for i, label in enumerate(labels):
        pixels = np.zeros((*size, 3), "uint8")
        for box in np.array(label[2:]).reshape(-1, label[1]):
            left, top, right, bottom = (box[1:5] * [size[1], size[0], size[1], size[0]]).astype(int)
            pixels[top:bottom, left:right] = 200
        writer.write_idx(i, mx.recordio.pack_img(mx.recordio.IRHeader(0, np.array(label, "float32"), i, 0), pixels, img_fmt=".png"))
    writer.close()
    return str(folder / "boxes.rec")


def test_records_of_images_with_boxes(tmp_path):
    """Rows of labels: shape of the image, length of the label, the label as the file has it, -1."""
    labels = [[2, 5, 0, 0.1, 0.1, 0.5, 0.5], [2, 5, 1, 0.2, 0.2, 0.9, 0.9, 0, 0.3, 0.3, 0.4, 0.4], [2, 5, 1, 0, 0, 1, 1]]
    path = _boxes(tmp_path, labels)
    data = mx.io.ImageDetRecordIter(path_imgrec=path, data_shape=(3, 10, 15), batch_size=2, mean_r=100, mean_g=100, mean_b=100)
    assert data.provide_label[0].name == "label" and data.provide_label[0].shape == (2, 16) and data.provide_data[0].shape == (2, 3, 10, 15)
    batches = list(data)
    assert [b.pad for b in batches] == [0, 1]
    rows = batches[0].label[0].asnumpy()
    np.testing.assert_allclose(rows[0], [3, 10, 15, 7, *labels[0], *[-1] * 5], atol=1e-6)
    np.testing.assert_allclose(rows[1], [3, 10, 15, 12, *labels[1]], atol=1e-6)
    assert batches[0].data[0].asnumpy().min() == -100 and batches[1].data[0][0].asnumpy().min() == 100
    assert mx.io.ImageDetRecordIter(path_imgrec=path, data_shape=(3, 10, 15), batch_size=1, label_pad_width=30).next().label[0].shape == (1, 34)
    for wrong in ({"label_pad_width": 8}, {"label_width": 7}, {"resize_mode": "other"}, {"min_crop_scales": (0.1, 0.2, 0.3)}):
        with pytest.raises(ValueError):
            mx.io.ImageDetRecordIter(path_imgrec=path, data_shape=(3, 10, 15), batch_size=1, **wrong)
    with pytest.raises(TypeError, match="rand_crop"):
        mx.io.ImageDetRecordIter(path_imgrec=path, data_shape=(3, 10, 15), batch_size=1, rand_crop=1)


@pytest.mark.parametrize("options", (
    {"rand_mirror_prob": 1}, {"rand_pad_prob": 1, "max_pad_scale": 3.0, "fill_value": 0}, {"resize_mode": "fit"}, {"resize_mode": "shrink"},
    {"rand_crop_prob": 1, "min_crop_scales": 0.6, "max_crop_scales": 0.9, "min_crop_object_coverages": 1.0, "max_crop_trials": 200},
    {"rand_crop_prob": 1, "num_crop_sampler": 2, "min_crop_scales": (0.5, 0.7), "max_crop_scales": 0.95, "min_crop_overlaps": (0.1, 0.2),
     "crop_emit_mode": "overlap", "emit_overlap_thresh": 0.9, "max_crop_trials": (100, 200)}))
def test_boxes_of_records_follow_their_images(tmp_path, options):
    path = _boxes(tmp_path, [[2, 5, 0, 0.3, 0.3, 0.6, 0.7]], (80, 120))
    for _ in range(4):
        batch = mx.io.ImageDetRecordIter(path_imgrec=path, data_shape=(3, 100, 100), batch_size=1, **options).next()
        row, image = batch.label[0].asnumpy()[0], batch.data[0].asnumpy()[0, 0]
        image = image[:int(row[1]), :int(row[2])]
        rows, columns = np.where(image > 100)
        found = [columns.min() / image.shape[1], rows.min() / image.shape[0], (columns.max() + 1) / image.shape[1], (rows.max() + 1) / image.shape[0]]
        np.testing.assert_allclose(row[7:11], found, atol=0.03)


def test_lists_of_mixed_precision_cover_each_operator_once():
    from gluino.contrib.amp import lists
    for module, low in ((lists.symbol_fp16, "FP16"), (lists.symbol_bf16, "BF16")):
        parts = [getattr(module, f"{low}_FUNCS"), getattr(module, f"{low}_FP32_FUNCS"), module.FP32_FUNCS, module.WIDEST_TYPE_CASTS,
                 module.LOSS_OUTPUT_FUNCTIONS, [name for name, _, _ in module.CONDITIONAL_FP32_FUNCS]]
        listed = [name for part in parts for name in part]
        assert len(listed) == len(set(listed)) and {"Convolution", "softmax", "relu", "Concat", "SVMOutput"} <= set(listed)
    assert lists.symbol_bf16.BF16_USE_FP32_PARAMS == {}
