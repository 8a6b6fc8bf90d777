"""What cannot work does not compile, and the compiler says why in a sentence of ours."""
import os
import shlex
import subprocess

from test_docs import BUILD, ROOT

CASES = {
    "auto_parameters": ("hybrid([](const auto& x) { return x; });", "hybrid() must know the types of the arguments"),
    "several_signatures": ("struct Two { Tensor operator()(const Tensor& x) const; Tensor operator()(double x) const; }; hybrid(Two());",
                           "hybrid() must know the types of the arguments"),
    "reference_to_change": ("hybrid([](Tensor& x) { return x; });", "takes a reference that it could change"),
    "pointer": ("hybrid([](const Tensor* x) { return *x; });", "hybrid() takes and returns tensors, numbers"),
    "result_of_another_type": ("struct Own { virtual ~Own() = default; }; hybrid([](const Tensor& x) { return Own(); });", "hybrid() takes and returns"),
    "method": ("struct Net { Tensor run(const Tensor& x) { return x; } }; hybrid(&Net::run);", "hybrid() of a method needs its object"),
    "no_function": ("hybrid(3);", "hybrid() is for functions"),
    "emptied_layer": ("nn::Sequential net; nn::Dense layer(2); net.add(layer);", "would leave the caller an empty layer"),
    "call_without_all": ("struct B : nn::HybridBlockOf<B> { Tensor forward(const Tensor& x, double y) { return x * y; } }; B b; b(ones({1}));",
                         "a block is called with the arguments of its forward"),
}


def errors_of(source, folder):
    (folder / "refused.cc").write_text(f'#include "gluino/gluino.h"\nusing namespace gluino;\n{source}\n')
    compiler = [*shlex.split(os.environ.get("CXX", "g++")), "-std=c++20", "-fsyntax-only", "-fno-diagnostics-color"]
    done = subprocess.run([*compiler, f"-I{ROOT}/include", f"-I{BUILD}/generated", "refused.cc"], cwd=folder, capture_output=True, text=True)
    return done.stderr


def test_refusals(tmp_path):
    functions = [f"void {name}() {{ {code} }}" for name, (code, _) in CASES.items()]
    errors = errors_of("\n".join(functions), tmp_path)
    for sentence in {sentence for _, sentence in CASES.values()}:
        assert sentence in errors, f"{sentence}\n{errors}"
    for line, name in enumerate(CASES, start=3):  # each is traced back to its line
        assert f"refused.cc:{line}:" in errors, f"{name}\n{errors}"


def test_what_is_allowed(tmp_path):
    assert "error" not in errors_of("""void use() {
      int calls = 0;
      hybrid([&](const Tensor& x) noexcept { ++calls; return x; });
      hybrid([](Tensor x, double by, const std::optional<Tensor>& mask) { return mask ? x * by * *mask : x * by; });
      hybrid([](const std::vector<Tensor>& all) { return std::pair(all[0], 3); });
      hybrid(+[](const Tensor& x) { return x; }); }""", tmp_path)
