"""ONNX Runtime through its C ABI: a table of functions that only ever grows at its end, so positions stand for names."""
import ctypes
import os
import pathlib

import numpy as np

API_VERSION = 12
FUNCTIONS = dict(GetErrorMessage=2, CreateEnv=3, CreateSession=7, Run=9, CreateSessionOptions=10, SetGraphOptimizationLevel=23,
                 SetIntraOpNumThreads=24, GetInputCount=30, GetOutputCount=31, GetInputTypeInfo=33, GetInputName=36, GetOutputName=37,
                 CreateTensorWithData=49, IsTensor=50, GetTensorData=51, CastTypeInfoToTensorInfo=55, GetTensorElementType=60,
                 GetDimensionsCount=61, GetDimensions=62, GetSymbolicDimensions=63, GetTensorTypeAndShape=65, CreateCpuMemoryInfo=69,
                 GetDefaultAllocator=78, ReleaseStatus=93, ReleaseSession=95, ReleaseValue=96, ReleaseTypeInfo=98, ReleaseTensorInfo=99)
TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64", 12: "uint32",
         13: "uint64"}
NUMBERS = {name: number for number, name in TYPES.items()}
FATAL_ONLY, NO_OPTIMIZATIONS, ALL_OPTIMIZATIONS, ARENA = 4, 0, 99, 1


class OrtError(Exception):
    """ONNX Runtime refuses a model or a call."""


class Runtime:
    """The library, once loaded."""

    def __init__(self, library, threads=1, optimizations=ALL_OPTIMIZATIONS):
        self.library, self.threads = library, threads
        loaded = ctypes.CDLL(str(pathlib.Path(library)), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        loaded.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)(loaded.OrtGetApiBase()[0])
        self._table = get_api(API_VERSION)
        self.environment, self.options = ctypes.c_void_p(), ctypes.c_void_p()
        self.allocator, self.memory = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("CreateEnv", ctypes.c_int(FATAL_ONLY), b"gluino", ctypes.byref(self.environment))
        self.call("CreateSessionOptions", ctypes.byref(self.options))
        self.call("SetGraphOptimizationLevel", self.options, ctypes.c_int(optimizations))
        self.call("SetIntraOpNumThreads", self.options, ctypes.c_int(threads))
        self.call("GetDefaultAllocator", ctypes.byref(self.allocator))
        self.call("CreateCpuMemoryInfo", ctypes.c_int(ARENA), ctypes.c_int(0), ctypes.byref(self.memory))

    def unoptimized(self):
        return Runtime(self.library, self.threads, NO_OPTIMIZATIONS)

    def function(self, name, result=ctypes.c_void_p):
        return ctypes.CFUNCTYPE(result)(self._table[FUNCTIONS[name]])

    def call(self, name, *arguments):
        status = self.function(name)(*arguments)
        if status:
            text = self.function("GetErrorMessage", ctypes.c_char_p)(ctypes.c_void_p(status)).decode(errors="replace")
            self.function("ReleaseStatus", None)(ctypes.c_void_p(status))
            raise OrtError(text)

    def release(self, name, handle):
        self.function(name, None)(handle)


class Session:
    """A model of ONNX Runtime: called with arrays by name, gives its outputs in order."""

    def __init__(self, runtime, path):
        self._runtime, self._session = runtime, ctypes.c_void_p()
        runtime.call("CreateSession", runtime.environment, os.fsencode(path), runtime.options, ctypes.byref(self._session))
        self.inputs = {}  # name: (dtype, extents, -1 where free)
        for i in range(self._count("GetInputCount")):
            self.inputs[self._name("GetInputName", i)] = self._input_type(i)
        self.outputs = [self._name("GetOutputName", i) for i in range(self._count("GetOutputCount"))]

    def close(self):
        if self._session:
            self._runtime.release("ReleaseSession", self._session)
            self._session = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _count(self, function):
        count = ctypes.c_size_t()
        self._runtime.call(function, self._session, ctypes.byref(count))
        return count.value

    def _name(self, function, i):
        name = ctypes.c_char_p()
        self._runtime.call(function, self._session, ctypes.c_size_t(i), self._runtime.allocator, ctypes.byref(name))
        return name.value.decode()

    def _input_type(self, i):
        info, tensor_info = ctypes.c_void_p(), ctypes.c_void_p()
        self._runtime.call("GetInputTypeInfo", self._session, ctypes.c_size_t(i), ctypes.byref(info))
        self._runtime.call("CastTypeInfoToTensorInfo", info, ctypes.byref(tensor_info))
        try:
            return self._type_and_extents(tensor_info) if tensor_info else (None, None)
        finally:
            self._runtime.release("ReleaseTypeInfo", info)

    def _type_and_extents(self, tensor_info):
        kind, rank = ctypes.c_int(), ctypes.c_size_t()
        self._runtime.call("GetTensorElementType", tensor_info, ctypes.byref(kind))
        self._runtime.call("GetDimensionsCount", tensor_info, ctypes.byref(rank))
        extents = (ctypes.c_int64 * rank.value)()
        self._runtime.call("GetDimensions", tensor_info, extents, rank)
        return TYPES.get(kind.value), tuple(extents)

    def _tensor(self, array):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        value = ctypes.c_void_p()
        self._runtime.call("CreateTensorWithData", self._runtime.memory, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), shape,
                           ctypes.c_size_t(array.ndim), ctypes.c_int(NUMBERS[array.dtype.name]), ctypes.byref(value))
        return value

    def _array(self, value):
        is_tensor, info, data = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._runtime.call("IsTensor", value, ctypes.byref(is_tensor))
        if not is_tensor.value:
            raise OrtError("an output is not a tensor")
        self._runtime.call("GetTensorTypeAndShape", value, ctypes.byref(info))
        dtype, shape = self._type_and_extents(info)
        self._runtime.release("ReleaseTensorInfo", info)
        if dtype is None:
            raise OrtError("an output is not of numbers")
        self._runtime.call("GetTensorData", value, ctypes.byref(data))
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return np.frombuffer(ctypes.string_at(data, size), dtype).reshape(shape)

    def prepared(self, arrays):
        """A function without arguments that runs the model on these arrays and gives the outputs' handles; see release()."""
        arrays = {name: np.require(a, requirements="C") for name, a in arrays.items()}
        inputs = [self._tensor(a) for a in arrays.values()]
        names = (ctypes.c_char_p * len(arrays))(*[n.encode() for n in arrays])
        handles = (ctypes.c_void_p * len(arrays))(*[v.value for v in inputs])
        wanted = (ctypes.c_char_p * len(self.outputs))(*[n.encode() for n in self.outputs])

        def run(_kept=(arrays, inputs)):
            results = (ctypes.c_void_p * len(self.outputs))()
            self._runtime.call("Run", self._session, None, names, handles, ctypes.c_size_t(len(handles)), wanted, ctypes.c_size_t(len(wanted)), results)
            return results

        run.inputs = inputs
        return run

    def release(self, handles):
        for handle in handles:
            self._runtime.release("ReleaseValue", ctypes.c_void_p(handle))

    def __call__(self, arrays):
        run = self.prepared(arrays)
        try:
            results = run()
        finally:
            self.release([v.value for v in run.inputs])
        try:
            return [self._array(ctypes.c_void_p(r)) for r in results]
        finally:
            self.release(results)
