package gluino

// The models of make_models.py, in the folder that GLUINO_TEST_MODELS names, give what Python computed.

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

type testCase struct{ inputs, outputs []*Array }

func path(t testing.TB, name string) string {
	folder := os.Getenv("GLUINO_TEST_MODELS")
	if folder == "" {
		t.Skip("GLUINO_TEST_MODELS names no folder of models")
	}
	return filepath.Join(folder, name)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func readCases(t testing.TB, name string) (cases []testCase) {
	var current testCase
	for _, line := range strings.Split(strings.TrimSpace(string(must(os.ReadFile(path(t, name+".cases"))))), "\n") {
		words := strings.Fields(line)
		if words[0] == "run" {
			cases = append(cases, current)
			current = testCase{}
			continue
		}
		ndim := must(strconv.Atoi(words[3]))
		shape := make([]int64, ndim)
		for i := range shape {
			shape[i] = must(strconv.ParseInt(words[4+i], 10, 64))
		}
		var floats []float32
		var ints []int32
		for _, word := range words[4+ndim:] {
			v := must(strconv.ParseFloat(word, 64))
			floats, ints = append(floats, float32(v)), append(ints, int32(v))
		}
		array := must(FromSlice(floats, shape...))
		if words[2] == "int32" {
			array = must(FromSlice(ints, shape...))
		}
		if words[0] == "input" {
			current.inputs = append(current.inputs, array)
		} else {
			current.outputs = append(current.outputs, array)
		}
	}
	return cases
}

func expectAsPython(t *testing.T, net *Model, cases []testCase) {
	for _, c := range cases {
		outputs, err := net.Predict(c.inputs...)
		if err != nil || len(outputs) != len(c.outputs) {
			t.Error(len(outputs), "outputs:", err)
			return
		}
		for i, want := range c.outputs {
			if !reflect.DeepEqual(outputs[i].Shape(), want.Shape()) {
				t.Error("shape", outputs[i].Shape(), want.Shape())
				return
			}
			a, b := must(Values[float32](outputs[i])), must(Values[float32](want))
			for k := range b {
				if !(math.Abs(float64(a[k])-float64(b[k])) <= 1e-6) {
					t.Error(a[k], b[k])
					return
				}
			}
			outputs[i].Close()
		}
	}
}

func TestModelsGiveWhatPythonComputed(t *testing.T) {
	for _, name := range []string{"mlp", "conv", "loop", "embedding"} {
		t.Run(name, func(t *testing.T) {
			net := must(Load(path(t, name+"-symbol.json")))
			defer net.Close()
			cases := readCases(t, name)
			var group sync.WaitGroup
			for g := 0; g < 8; g++ {
				group.Add(1)
				go func() {
					defer group.Done()
					for call := 0; call < 5; call++ {
						expectAsPython(t, net, cases)
					}
				}()
			}
			group.Wait()
		})
	}
}

func TestValuesAreDescribed(t *testing.T) {
	net := must(LoadPair(path(t, "mlp-symbol.json"), path(t, "mlp-0000.params")))
	if got := must(net.Inputs()); !reflect.DeepEqual(got, []Value{{"data", "float32", []int64{-1, 8}}}) {
		t.Error(got)
	}
	if got := must(net.Outputs()); !reflect.DeepEqual(got[0].Shape, []int64{-1, 3}) {
		t.Error(got)
	}
}

func TestFromMemory(t *testing.T) {
	read := func(name string) []byte { return must(os.ReadFile(path(t, name))) }
	expectAsPython(t, must(FromMemory(read("mlp-symbol.json"), read("mlp-0000.params"))), readCases(t, "mlp"))
}

func TestOperators(t *testing.T) {
	x := must(FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	sum := must(Invoke("sum", Attributes{"axis": "(1,)"}, x))
	if got := must(Values[float32](sum[0])); !reflect.DeepEqual(got, []float32{3, 7}) {
		t.Error(got)
	}
	if parts := must(Invoke("split", Attributes{"num_outputs": "2"}, x)); len(parts) != 2 {
		t.Error(len(parts))
	}
	if _, err := Values[int32](x); err == nil {
		t.Error("a wrong type was taken")
	}
}

func TestErrors(t *testing.T) {
	expect := func(err error, code, hint string) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Hint+e.Message, hint) {
			t.Error(err)
		}
	}
	_, err := Load("/nowhere-symbol.json")
	expect(err, "GLUINO_ERROR_SYSTEM", "/nowhere-symbol.json")
	x := must(FromSlice([]float32{1, 2, 3}, 3))
	_, err = Invoke("broadcast_ad", nil, x, x)
	expect(err, "GLUINO_ERROR_ARGUMENT", "did you mean 'broadcast_add'?")
	net := must(Load(path(t, "mlp-symbol.json")))
	_, err = net.Predict(x)
	expect(err, "GLUINO_ERROR_SHAPE", "")
	_, err = net.Predict()
	expect(err, "GLUINO_ERROR_ARGUMENT", "1 are needed: data")
	net.Close()
	net.Close()
	_, err = net.Predict(x)
	expect(err, "GLUINO_ERROR_HANDLE", "")
}

func TestNothingIsLeftBehind(t *testing.T) {
	runtime.GC()
	before := must(MemoryStatistics())
	for i := 0; i < 20; i++ {
		net := must(Load(path(t, "mlp-symbol.json")))
		x := must(FromSlice(make([]float32, 8), 1, 8))
		for _, a := range append(must(net.Predict(x)), x) {
			a.Close()
		}
		net.Close()
	}
	if after := must(MemoryStatistics()); after.Models > before.Models || after.Arrays > before.Arrays {
		t.Error(before, after)
	}
}

// Of the network that GLUINO_BENCH_MODEL names, which takes 512 numbers.
func BenchmarkPredict(b *testing.B) {
	if os.Getenv("GLUINO_BENCH_MODEL") == "" {
		b.Skip("GLUINO_BENCH_MODEL names no model")
	}
	net := must(Load(os.Getenv("GLUINO_BENCH_MODEL")))
	x := must(FromSlice(make([]float32, 512), 1, 512))
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		must(net.Predict(x))[0].Close()
	}
}
