// Package gluino loads and runs networks exported by Gluino and MXNet.
//
//	net, err := gluino.Load("net-symbol.json") // the parameters are found beside it
//	x, err := gluino.FromSlice([]float32{1, 2, 3}, 1, 3)
//	outputs, err := net.Predict(x)
//	numbers, err := gluino.Values[float32](outputs[0])
//
// It needs libgluino_c: set CGO_CFLAGS and CGO_LDFLAGS to what pkg-config says about gluino_c where it is not installed for all.
// Everything may be used from several goroutines at once; the weights of a model are shared.
package gluino

/*
#cgo LDFLAGS: -lgluino_c
#include <gluino/c_api.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Error is what went wrong.
type Error struct {
	Code    string // as in c_api.h: "GLUINO_ERROR_SHAPE"
	Message string
	Hint    string // what to do; "" where the message says it all
}

func (e *Error) Error() string { return e.Message }

// The last error belongs to the thread of the call, so both are made on the same one.
func check(call func() C.gluino_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := call(); status != C.GLUINO_OK {
		return &Error{C.GoString(C.gluino_status_name(status)), C.GoString(C.gluino_last_error_message()), C.GoString(C.gluino_last_error_hint())}
	}
	return nil
}

// Element is a type of Go that is an element type of arrays.
type Element interface {
	float32 | float64 | int8 | uint8 | int32 | int64 | bool
}

func dtypeOf[T Element]() C.gluino_dtype {
	var zero T
	switch any(zero).(type) {
	case float32:
		return C.GLUINO_FLOAT32
	case float64:
		return C.GLUINO_FLOAT64
	case int8:
		return C.GLUINO_INT8
	case uint8:
		return C.GLUINO_UINT8
	case int32:
		return C.GLUINO_INT32
	case int64:
		return C.GLUINO_INT64
	}
	return C.GLUINO_BOOL
}

// Version of the library.
func Version() string { return C.GoString(C.gluino_version()) }

// SetNumThreads sets how many threads one operator may use. Many goroutines at once run best with 1.
func SetNumThreads(threads int) error {
	return check(func() C.gluino_status { return C.gluino_set_num_threads(C.int(threads)) })
}

// Memory tells how much is in use.
type Memory struct{ Live, Peak, Cached, Allocations, Models, Arrays int64 }

// MemoryStatistics of the first device.
func MemoryStatistics() (Memory, error) {
	var m C.gluino_memory
	err := check(func() C.gluino_status { return C.gluino_memory_statistics(0, &m) })
	return Memory{int64(m.live), int64(m.peak), int64(m.cached), int64(m.allocations), int64(m.models), int64(m.arrays)}, err
}

// Array is an array of the library's. Close gives its memory back; otherwise the garbage collector does.
type Array struct{ handle C.gluino_array }

func own(handle C.gluino_array) *Array {
	a := &Array{handle}
	runtime.SetFinalizer(a, (*Array).Close)
	return a
}

// FromSlice copies values in row-major order into a new array.
func FromSlice[T Element](values []T, shape ...int64) (*Array, error) {
	var handle C.gluino_array
	var data, extents unsafe.Pointer
	var zero T
	if len(values) > 0 {
		data = unsafe.Pointer(&values[0])
	}
	if len(shape) > 0 {
		extents = unsafe.Pointer(&shape[0])
	}
	err := check(func() C.gluino_status {
		return C.gluino_array_create(dtypeOf[T](), C.int32_t(len(shape)), (*C.int64_t)(extents), data,
			C.size_t(len(values))*C.size_t(unsafe.Sizeof(zero)), &handle)
	})
	if err != nil {
		return nil, err
	}
	return own(handle), nil
}

// Close frees the array; it must not be used afterwards.
func (a *Array) Close() {
	if a.handle != 0 {
		C.gluino_array_free(a.handle)
		a.handle = 0
		runtime.SetFinalizer(a, nil)
	}
}

func (a *Array) info() (b C.gluino_buffer, err error) {
	err = check(func() C.gluino_status { return C.gluino_array_info(a.handle, &b) })
	return
}

// Shape of the array.
func (a *Array) Shape() []int64 {
	b, err := a.info()
	if err != nil {
		return nil
	}
	return extents(b.shape, b.ndim)
}

// DType by name: "float32".
func (a *Array) DType() string {
	b, err := a.info()
	if err != nil {
		return ""
	}
	return C.GoString(C.gluino_dtype_name(b.dtype))
}

func extents(shape [C.GLUINO_MAX_AXES]C.int64_t, ndim C.int32_t) []int64 {
	out := make([]int64, ndim)
	for i := range out {
		out[i] = int64(shape[i])
	}
	return out
}

// Values copies the elements into a slice, in row-major order. T must be the array's element type.
func Values[T Element](a *Array) ([]T, error) {
	b, err := a.info()
	if err != nil {
		return nil, err
	}
	if b.dtype != dtypeOf[T]() {
		return nil, &Error{"GLUINO_ERROR_DTYPE", fmt.Sprintf("the array is %s", a.DType()), "ask for that type"}
	}
	var zero T
	values := make([]T, uintptr(b.bytes)/unsafe.Sizeof(zero))
	if len(values) > 0 {
		err = check(func() C.gluino_status { return C.gluino_array_read(a.handle, unsafe.Pointer(&values[0]), b.bytes) })
	}
	runtime.KeepAlive(a)
	return values, err
}

// Attributes of an operator, as files spell them: {"axis": "(0, 1)"}.
type Attributes map[string]string

// Invoke calls any operator by its name in MXNet.
func Invoke(name string, attributes Attributes, inputs ...*Array) ([]*Array, error) {
	handles := make([]C.gluino_array, len(inputs)+1) // one more: there is a first element
	for i, a := range inputs {
		handles[i] = a.handle
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	keys := (*[1 << 20]*C.char)(C.malloc(C.size_t(2*len(attributes)+1) * C.size_t(unsafe.Sizeof(text))))
	defer C.free(unsafe.Pointer(keys))
	n := 0
	for key, value := range attributes {
		keys[n], keys[len(attributes)+n] = C.CString(key), C.CString(value)
		defer C.free(unsafe.Pointer(keys[n]))
		defer C.free(unsafe.Pointer(keys[len(attributes)+n]))
		n++
	}
	for room := 1; ; {
		outputs := make([]C.gluino_array, room)
		count := C.size_t(room)
		err := check(func() C.gluino_status {
			return C.gluino_invoke(text, &handles[0], C.size_t(len(inputs)), &keys[0], &keys[len(attributes)], C.size_t(len(attributes)), &outputs[0], &count)
		})
		runtime.KeepAlive(inputs)
		if int(count) > room {
			room = int(count)
			continue
		}
		if err != nil {
			return nil, err
		}
		return ownAll(outputs[:count]), nil
	}
}

func ownAll(handles []C.gluino_array) []*Array {
	arrays := make([]*Array, len(handles))
	for i, handle := range handles {
		arrays[i] = own(handle)
	}
	return arrays
}
