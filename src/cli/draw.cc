// gluino draw: a model's graph as a picture, or what hybridize() makes of it as a page for a browser.
#include "base/file.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "exec/runner.h"
#include "graph/observe.h"
#include "page/page.h"

namespace gluino::cli {
namespace {

struct DrawOptions {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
  bool traced = false, no_times = false;
};

// How long each operator takes, eagerly and compiled; the second run is like all later ones.
void time_parts(const ModelProgram& program, const CompiledGraph& compiled, const std::vector<std::string>& names, const Tensors& inputs,
                PageContent& content) {
  const std::vector<Tensor> values = bind_inputs(program.graph, names, inputs);
  const size_t nodes = program.graph.nodes.size();
  content.node_microseconds.assign(nodes, 0);
  Progress progress("timing operators");
  for (size_t run = 0; run < 2; ++run)
    interpret_observed(program.graph, values, [&](size_t n, const Tensors&, double microseconds) {
      content.node_microseconds[n] = microseconds;
      progress.show(static_cast<double>(run * nodes + n) / static_cast<double>(3 * nodes));
    });
  PlanRunner runner(compiled.plan, true);
  for (int run = 0; run < 2; ++run) PlanRunner::Run(runner).forward(plan_variables(compiled, names, inputs), compiled.num_outputs);
  content.step_microseconds = runner.step_microseconds();
}

int draw(const DrawOptions& options, bool json) {
  const bool is_page = options.output.ends_with(".html");
  if (!is_page && !options.output.ends_with(".svg") && !options.output.ends_with(".dot"))
    raise<UsageError>("--output {}: the ending says what is drawn: .html, .svg or .dot", options.output);
  LoadedModel model = load_model(options.model, named_inputs(options.inputs));
  const Tensors inputs = make_inputs(model, options.inputs, true);
  const ModelProgram program = make_program(model, inputs);
  const CompiledGraph compiled = program.compile();
  if (is_page) {
    PageContent content{.title = model.files.symbol_path, .before = compiled.before, .after = compiled.after, .plan = compiled.plan};
    if (!options.no_times) time_parts(program, compiled, model.inputs, inputs, content);
    write_file(options.output, make_page(content));
  } else {
    const Graph& graph = options.traced ? compiled.before : compiled.after;
    write_file(options.output, options.output.ends_with(".svg") ? to_svg(graph) : to_dot(graph));
  }
  if (json)
    print_json({{"written", options.output}});
  else
    fmt::print("written: {}\n", options.output);
  return 0;
}

}  // namespace

void add_draw(Commands& commands) {
  auto options = std::make_shared<DrawOptions>();
  Command command = commands.add("draw", "Draws the graph, or writes a page that shows what hybridize() makes of it.");
  add_model_options(command, options->model);
  command
      .option("-o,--output", options->output,
              "graph.html: a page with both graphs, what became of each operator, times and memory; graph.svg, graph.dot: a picture")
      .required()
      .type("FILE");
  command.flag("--traced", options->traced, "draw the graph before the passes, for .svg and .dot");
  command.flag("--no-times", options->no_times, "do not run the model to time its operators, for .html");
  add_shape_options(command, options->inputs);
  add_input_options(command, options->inputs);
  command.runs([options](bool json) { return draw(*options, json); });
}

}  // namespace gluino::cli
