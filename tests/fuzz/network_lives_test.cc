// Random networks and their lives: trained, cast, frozen, saved, loaded, exported, changed, called wrongly. What their owner sees is the
// same whether the network runs eagerly, hybridized, with verify, with a kept arena, or with some of its layers hybridized alone.
#include <unistd.h>

#include <filesystem>
#include <random>

#include "base/env.h"
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

constexpr int kEvents = 24;

struct Life {
  int family = 0;           // 0: rows, 1: images, 2: sequences
  std::vector<int> layers;  // what each layer is
  std::vector<std::pair<int, int>> events;
  std::string optimizer;
  uint64_t seed = 0;
};

Life random_life(uint64_t number) {
  std::mt19937_64 engine(number);
  const auto below = [&](int n) { return static_cast<int>(engine() % static_cast<uint64_t>(n)); };
  Life life{.family = below(3), .seed = engine()};
  for (int i = 0, n = 1 + below(4); i < n; ++i) life.layers.push_back(below(12));
  for (int i = 0, n = 4 + below(7); i < n; ++i) life.events.emplace_back(below(kEvents), below(100));
  const char* optimizers[] = {"sgd", "adam", "nag", "rmsprop", "adagrad"};
  life.optimizer = optimizers[below(5)];
  return life;
}

std::string text_of(const Life& life, int number) {
  std::string text = "life " + std::to_string(number) + ", family " + std::to_string(life.family) + ", layers";
  for (int layer : life.layers) text += " " + std::to_string(layer);
  text += ", " + life.optimizer + ", events";
  for (const auto& [event, choice] : life.events) text += " " + std::to_string(event) + "(" + std::to_string(choice) + ")";
  return text;
}

// x + f(x)
struct Residual : nn::HybridBlock {
  explicit Residual(std::shared_ptr<Block> inner) { own_child("inner", std::move(inner)); }
  Tensor forward(const Tensor& x) override { return x + child("inner")(x); }
};
// A moving average of what it sees, taken away while predicting.
struct Centred : nn::HybridBlock {
  ParameterPtr mean = add_parameter("mean", {.shape = {1}, .init = init::zero(), .is_state = true, .differentiable = false});
  Tensor forward(const Tensor& x) override {
    if (!autograd::is_training()) return x - mean->data().astype(x.dtype());
    {
      const auto pause = autograd::pause(true);
      Tensor m = mean->data();
      m.assign(m * 0.9 + x.mean().reshape({1}).astype(m.dtype()) * 0.1);
    }
    return x * 2;
  }
};
// A branch on values, and an extent that is read.
struct Branching : nn::HybridBlock {
  Tensor forward(const Tensor& x) override {
    const Tensor scaled = x * (1.0 + 0.1 * static_cast<double>(x.extent(0)));
    return x.sum() > 0 ? tanh(scaled) : scaled * 0.5;
  }
};

std::shared_ptr<nn::HybridBlock> make_layer(int family, int kind) {
  const auto dense = [](int64_t units, const std::string& activation = "") {
    return std::make_shared<nn::Dense>(units, nn::DenseOptions{.activation = activation, .flatten = false});
  };
  switch (kind) {
    case 0: return std::make_shared<nn::BatchNorm>(nn::BatchNormOptions{.axis = family == 2 ? 2 : 1});
    case 1: return std::make_shared<nn::Dropout>(0.3);
    case 2: return std::make_shared<Branching>();
    case 3: return std::make_shared<Centred>();
    case 4: return std::make_shared<nn::GELU>();
    case 5: return std::make_shared<nn::PReLU>();
    default: break;
  }
  if (family == 0) switch (kind) {
      case 6: return dense(6, "relu");
      case 7: return dense(5, "tanh");
      case 8: return std::make_shared<nn::LayerNorm>();
      case 9: return std::make_shared<Residual>(dense(6));
      case 10: return std::make_shared<nn::HybridLambda>([](const Tensor& x) { return softmax(x) * 3; });
      default: return std::make_shared<nn::SELU>();
    }
  const auto convolution = [](int64_t channels, nn::ConvOptions options) {
    return std::make_shared<nn::Conv2D>(channels, 3, std::move(options));
  };
  if (family == 1) switch (kind) {
      case 6: return convolution(6, {.padding = 1, .activation = "relu"});
      case 7: return convolution(4, {.strides = 2, .padding = 1});
      case 8: return std::make_shared<nn::InstanceNorm>();
      case 9: return std::make_shared<nn::MaxPool2D>(2, nn::PoolOptions{.strides = nn::Extents(1), .padding = 1});
      case 10: return std::make_shared<nn::Conv2DTranspose>(3, 2);
      default: return std::make_shared<nn::GroupNorm>();
    }
  switch (kind) {
    case 6: return std::make_shared<nn::LSTM>(6, nn::RecurrentOptions{.layout = "NTC"});
    case 7: return std::make_shared<nn::GRU>(3, nn::RecurrentOptions{.layout = "NTC", .bidirectional = true});
    case 8: return std::make_shared<nn::LayerNorm>();
    case 9: return std::make_shared<nn::MultiHeadAttention>(6, 2, nn::AttentionOptions{.dropout = 0.2});
    case 10: return std::make_shared<Residual>(dense(6));
    default: return std::make_shared<nn::RNN>(4, nn::RecurrentOptions{.layout = "NTC", .dropout = 0.2}, "tanh");
  }
}

enum class Mode { eager, hybridized, verified, kept_arena, some_layers };
constexpr const char* kModes[] = {"eagerly", "hybridized", "with verify", "with a kept arena", "with some layers hybridized"};

class Owner {
 public:
  Owner(const Life& life, Mode mode) : life_(life), mode_(mode), engine_(life.seed) {
    gluino::seed(life.seed);
    net_ = std::make_shared<nn::HybridSequential>("net_");
    // Residuals need their own width: what comes in is brought to it first.
    if (life.family == 1)
      net_->add(std::make_shared<nn::Conv2D>(6, 1));
    else
      net_->add(std::make_shared<nn::Dense>(6, nn::DenseOptions{.flatten = false}));
    int64_t width = 6;
    for (int kind : life.layers) {
      const bool keeps_width = life.family == 0 ? kind != 7 : life.family == 2 ? kind != 11 : true;
      if (life.family != 1 && (kind == 9 || kind == 10) && width != 6) kind = 4;
      net_->add(make_layer(life.family, kind));
      if (!keeps_width) width = 0;
    }
    net_->initialize(init::uniform(0.5));
    make_trainer();
    hybridize();
  }
  ~Owner() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  struct Seen {
    Tensors tensors;
    std::vector<std::string> errors;
  };
  Seen live() {
    for (const auto& [event, choice] : life_.events) {
      try {
        happen(event, choice);
      } catch (const UserError& e) {  // the same event fails in every mode with the same words, or in none
        note({});
        errors_.push_back(e.what());
      }
      for (const auto& [name, p] : net_->collect_params())
        if (p->is_initialized()) note(p->data());
      note(full({1}, static_cast<double>(hook_calls_)));
      note(random::uniform(0, 1, {2}));
    }
    return {seen_, errors_};
  }

 private:
  void hybridize() {
    if (mode_ == Mode::eager) return;
    if (mode_ == Mode::some_layers) {
      for (size_t i = 0; i < net_->size(); ++i) (*net_)[i].hybridize((life_.seed >> i) % 2 == 0);
      return;
    }
    net_->hybridize(true, {.static_alloc = mode_ == Mode::kept_arena, .verify = mode_ == Mode::verified});
  }
  // A bias before a normalising layer has a gradient of rounding errors alone, which no optimizer may divide by their own size.
  void make_trainer() {
    optimizer::NamedOptions options;
    if (life_.optimizer == "adam" || life_.optimizer == "rmsprop") options.emplace_back("epsilon", 0.1);
    if (life_.optimizer == "adagrad") options.emplace_back("eps", 0.1);
    trainer_ = std::make_unique<Trainer>(net_->collect_params(), life_.optimizer, options);
  }
  Tensor input(int choice) {
    const int64_t batch = 2 + choice % 3, extent = 4 + choice % 2;
    const Shape shape = life_.family == 0 ? Shape{batch, 4} : life_.family == 1 ? Shape{batch, 3, extent, 5} : Shape{batch, extent, 4};
    return random_tensor(shape, dtype_, engine_());
  }
  void note(const Tensor& t) {
    if (t.is_symbolic()) throw InternalError("a tensor has no value after a call");
    seen_.push_back(t.defined() ? t.detach().astype(DType::float32).copy() : Tensor());
  }
  // Far enough from flat for gradients of normalised layers, too.
  Tensor loss_of(const Tensor& y) { return ((y - 0.25) * (y - 0.25) * (y + 2)).mean(); }
  void train(Tensor x, bool in_training = true) {
    x.attach_grad();
    Tensor loss;
    {
      const auto record = autograd::record(in_training);
      loss = loss_of((*net_)(x));
    }
    loss.backward();
    note(loss);
    note(x.grad());
    trainer_->step(1, true);
  }
  std::string path(const char* name) {
    std::filesystem::create_directories(folder_);
    return folder_ + "/" + name;
  }

  void happen(int event, int choice) {
    nn::HybridSequential& net = *net_;
    switch (event) {
      case 0: note(net(input(choice))); break;
      case 1:
      case 2:
      case 3: train(input(choice)); break;
      case 4: {  // gradients of two batches are added
        net.collect_params(".*weight").set_grad_req(GradReq::add);
        net.zero_grad();
        for (int i = 0; i < 2; ++i) {
          Tensor loss;
          {
            const auto record = autograd::record();
            loss = loss_of(net(input(choice + i)));
          }
          loss.backward();
        }
        trainer_->step(2, true);
        net.collect_params(".*weight").set_grad_req(GradReq::write);
        break;
      }
      case 5: {
        net.save_parameters(path("a.params"));
        train(input(choice));
        net.load_parameters(path("a.params"));
        note(net(input(choice)));
        break;
      }
      case 6: {
        dtype_ = dtype_ == DType::float32 ? DType::float64 : DType::float32;
        net.cast(dtype_);
        make_trainer();
        note(net(input(choice)));
        break;
      }
      case 7: trainer_->set_learning_rate(0.001 * (1 + choice)); break;
      case 8:
        net.initialize(init::uniform(0.25), Device(), true);
        make_trainer();
        break;
      case 9: {
        const auto all = net.collect_params();
        int at = 0;
        for (const auto& [name, p] : all)
          if (at++ % 2 == choice % 2 && !p->is_state()) p->set_grad_req(p->grad_req() == GradReq::null ? GradReq::write : GradReq::null);
        train(input(choice));
        break;
      }
      case 10: {  // what was exported gives the answers of the network, and trains on
        const Tensor x = input(choice);
        const Tensor y = net(x);
        note(y);
        std::unique_ptr<SymbolBlock> loaded;
        const int calls_before = hook_calls_;
        try {
          if (mode_ == Mode::eager || mode_ == Mode::some_layers) net.hybridize();
          net(x);
          net.export_model(path("net"));
        } catch (const UserError&) {  // it reads values
        }
        if (mode_ == Mode::eager || mode_ == Mode::some_layers) net.hybridize(false);
        hybridize();
        hook_calls_ = calls_before;  // whether export needs another trace is its own affair
        if (!std::filesystem::exists(path("net-symbol.json"))) break;
        loaded = SymbolBlock::imports(path("net-symbol.json"), {}, path("net-0000.params"));
        std::filesystem::remove(path("net-symbol.json"));
        ASSERT_TRUE(close((*loaded)(x), y, 1e-3, 1e-4)) << "imported";
        loaded->hybridize();
        ASSERT_TRUE(close((*loaded)(x), y, 1e-3, 1e-4)) << "imported and hybridized";
        break;
      }
      case 11: {
        if (hook_ >= 0)
          net[0].remove_hook(std::exchange(hook_, -1));
        else
          hook_ = net[0].add_hook([this](nn::Block&, const Tensors&, const Tensors&) { ++hook_calls_; });
        note(net(input(choice)));
        break;
      }
      case 12: {  // second order
        Tensor x = input(choice);
        x.attach_grad();
        Tensor penalty;
        {
          const auto record = autograd::record();
          const Tensor g = autograd::grad({loss_of(net(x))}, {x}, {}, {.create_graph = true})[0];
          penalty = (g * g).sum();
        }
        penalty.backward();
        note(penalty);
        note(x.grad());
        trainer_->step(1, true);
        break;
      }
      case 13: {
        net.replace_child(std::to_string(net.size() - 1), make_layer(life_.family, choice % 2 ? 4 : 5));
        net.initialize(init::uniform(0.25));
        if (dtype_ != DType::float32) net.cast(dtype_);
        make_trainer();
        hybridize();
        note(net(input(choice)));
        break;
      }
      case 14: {
        for (const auto& [name, p] : net.collect_params(choice % 2 ? ".*bias" : ".*weight"))
          if (p->is_initialized()) p->set_data(p->data() * 0.75);
        note(net(input(choice)));
        break;
      }
      case 15: {
        const auto mode = choice % 2 ? autograd::train_mode() : autograd::predict_mode();
        note(net(input(choice)));
        break;
      }
      case 16: note(net[0](input(choice))); break;
      case 17: {  // two calls before their backward passes
        const Tensor a = input(choice), b = input(choice + 1);
        Tensor first, second;
        {
          const auto record = autograd::record();
          first = loss_of(net(a)), second = loss_of(net(b));
        }
        second.backward();
        first.backward();
        trainer_->step(1, true);
        break;
      }
      case 18:
        if (mode_ != Mode::eager) net.hybridize(false);
        note(net(input(choice)));
        hybridize();
        break;
      case 19: net.clear_caches(); break;
      case 20: {
        train(input(choice));
        trainer_->save_states(path("a.states"));
        train(input(choice));
        trainer_->load_states(path("a.states"));
        break;
      }
      case 21: {  // an input that does not fit
        try {
          note(net(ones({2, 2, 2, 2, 2, 2, 2}, {dtype_})));
        } catch (const UserError& e) {
          errors_.push_back(e.what());
        }
        note(net(input(choice)));
        break;
      }
      case 22: train(input(choice), false); break;
      default: {  // its result goes on to a function that is hybridized, too
        auto head = hybrid([&](const Tensor& x) { return loss_of(net(x)) * 2; });
        const Tensor x = input(choice);
        Tensor loss;
        {
          const auto record = autograd::record();
          loss = mode_ == Mode::eager ? loss_of(net(x)) * 2 : head(x);
        }
        loss.backward();
        note(loss);
        trainer_->step(1, true);
      }
    }
  }

  const Life& life_;
  const Mode mode_;
  std::mt19937_64 engine_;
  std::shared_ptr<nn::HybridSequential> net_;
  std::unique_ptr<Trainer> trainer_;
  DType dtype_ = DType::float32;
  int hook_ = -1, hook_calls_ = 0;
  Tensors seen_;
  std::vector<std::string> errors_;
  const std::string folder_ = std::filesystem::temp_directory_path() / ("gluino_lives_" + std::to_string(::getpid()));
};

TEST(NetworkLives, AreTheSameInEveryMode) {
  const int begin = env_int("GLUINO_FUZZ_FIRST").value_or(0), count = env_int("GLUINO_FUZZ_PROGRAMS").value_or(150);
  int failures = 0;
  for (int number = begin; number < begin + count; ++number) {
    const Life life = random_life(static_cast<uint64_t>(number));
    SCOPED_TRACE(text_of(life, number));
    const Owner::Seen eager = Owner(life, Mode::eager).live();
    failures += static_cast<int>(eager.errors.size());
    for (Mode mode : {Mode::hybridized, Mode::verified, Mode::kept_arena, Mode::some_layers}) {
      SCOPED_TRACE(kModes[static_cast<int>(mode)]);
      const Owner::Seen seen = Owner(life, mode).live();
      ASSERT_EQ(seen.errors, eager.errors);
      ASSERT_EQ(seen.tensors.size(), eager.tensors.size());
      for (size_t i = 0; i < eager.tensors.size(); ++i) {
        const Tensor &got = seen.tensors[i], &want = eager.tensors[i];
        ASSERT_EQ(got.defined(), want.defined()) << "entry " << i;
        if (!want.defined()) continue;
        ASSERT_TRUE(close(got, want, 1e-3, 1e-4)) << "entry " << i << "\n" << got << "\n" << want;
      }
    }
  }
  EXPECT_LE(failures, count) << "most events must be legal";
}

}  // namespace
}  // namespace gluino::test
