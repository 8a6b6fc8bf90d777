package gluino

/*
#include <gluino/c_api.h>
#include <stdlib.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Model is a loaded network. Close gives its memory back; otherwise the garbage collector does.
type Model struct {
	handle  C.gluino_model
	outputs int
}

// Value is what is known of an input or output before anything runs.
type Value struct {
	Name  string
	DType string  // "": not known before the call
	Shape []int64 // -1: may change from call to call; nil: not known before the call
}

// Load reads <name>-symbol.json with the only parameters beside it, or a model in one file.
func Load(path string) (*Model, error) { return load(path, nil) }

// LoadPair reads a graph and its parameters.
func LoadPair(path, params string) (*Model, error) {
	text := C.CString(params)
	defer C.free(unsafe.Pointer(text))
	return load(path, text)
}

func load(path string, params *C.char) (*Model, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	m := &Model{}
	return m.ready(func() C.gluino_status { return C.gluino_model_load(text, params, nil, &m.handle) })
}

// FromMemory reads the bytes of a graph and of its parameters, or those of a one-file model and nil.
func FromMemory(graph, params []byte) (*Model, error) {
	first := func(bytes []byte) unsafe.Pointer {
		if len(bytes) == 0 {
			return nil
		}
		return unsafe.Pointer(&bytes[0])
	}
	m := &Model{}
	return m.ready(func() C.gluino_status {
		return C.gluino_model_load_memory(first(graph), C.size_t(len(graph)), first(params), C.size_t(len(params)), nil, &m.handle)
	})
}

func (m *Model) ready(read func() C.gluino_status) (*Model, error) {
	if err := check(read); err != nil {
		return nil, err
	}
	var count C.size_t
	if err := check(func() C.gluino_status { return C.gluino_model_num_outputs(m.handle, &count) }); err != nil {
		return nil, err
	}
	m.outputs = int(count)
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// Close frees the model. Calls under way in other goroutines come to their end.
func (m *Model) Close() {
	if m.handle != 0 {
		C.gluino_model_free(m.handle)
		m.handle = 0
		runtime.SetFinalizer(m, nil)
	}
}

// Inputs in the order in which Predict takes them.
func (m *Model) Inputs() ([]Value, error) {
	var count C.size_t
	if err := check(func() C.gluino_status { return C.gluino_model_num_inputs(m.handle, &count) }); err != nil {
		return nil, err
	}
	return m.values(int(count), func(i C.size_t, v *C.gluino_value_info) C.gluino_status { return C.gluino_model_input(m.handle, i, v) })
}

// Outputs in the order in which Predict gives them.
func (m *Model) Outputs() ([]Value, error) {
	return m.values(m.outputs, func(i C.size_t, v *C.gluino_value_info) C.gluino_status { return C.gluino_model_output(m.handle, i, v) })
}

func (m *Model) values(count int, tell func(C.size_t, *C.gluino_value_info) C.gluino_status) ([]Value, error) {
	all := make([]Value, count)
	for i := range all {
		var v C.gluino_value_info
		if err := check(func() C.gluino_status { return tell(C.size_t(i), &v) }); err != nil {
			return nil, err
		}
		all[i].Name = C.GoString(v.name)
		if name := C.gluino_dtype_name(v.dtype); name != nil {
			all[i].DType = C.GoString(name)
		}
		if v.ndim >= 0 {
			all[i].Shape = extents(v.shape, v.ndim)
		}
	}
	runtime.KeepAlive(m)
	return all, nil
}

// Predict runs the model.
func (m *Model) Predict(inputs ...*Array) ([]*Array, error) {
	buffers := make([]C.gluino_buffer, len(inputs)+1) // their memory is the library's; one more: there is a first element
	for i, a := range inputs {
		b, err := a.info()
		if err != nil {
			return nil, err
		}
		buffers[i] = b
	}
	outputs := make([]C.gluino_array, m.outputs+1)
	err := check(func() C.gluino_status {
		return C.gluino_model_predict(m.handle, &buffers[0], C.size_t(len(inputs)), &outputs[0], C.size_t(m.outputs))
	})
	runtime.KeepAlive(inputs)
	runtime.KeepAlive(m)
	if err != nil {
		return nil, err
	}
	return ownAll(outputs[:m.outputs]), nil
}
