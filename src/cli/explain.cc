// gluino explain: what hybridize() does to a model, stage by stage.

#include "base/format.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "cli/report.h"

namespace gluino::cli {
namespace {

struct ExplainOptions {
  ModelOptions model;
  InputOptions inputs;
};

Json describe(const ModelProgram& program) {
  const CompiledGraph compiled = program.compile();
  Json stages = Json::array(), steps = Json::array();
  for (const StageTime& s : compiled.stages)
    stages.push_back({{"stage", s.stage}, {"operators", s.nodes}, {"microseconds", s.microseconds}});
  for (const Step& s : compiled.plan.steps) steps.push_back({{"name", s.name}, {"operator", s.op->name}});
  return {{"stages", stages},
          {"steps", steps},
          {"memory", {{"planned_bytes", compiled.plan.arena_bytes}, {"unplanned_bytes", compiled.plan.unplanned_bytes}}},
          {"before", compiled.before.str()},
          {"after", compiled.after.str()}};
}

int explain(const ExplainOptions& options, bool json) {
  LoadedModel model = load_model(options.model, named_inputs(options.inputs));
  const Tensors inputs = make_inputs(model, options.inputs, true);
  if (json) {
    print_json(describe(make_program(model, inputs)));
    return 0;
  }
  model.net->hybridize();
  (*model.net)(inputs);
  (*model.net)(inputs);  // the times of the second call are like those of all later ones
  fmt::print("{}", model.net->explain());
  return 0;
}

}  // namespace

void add_explain(Commands& commands) {
  auto options = std::make_shared<ExplainOptions>();
  Command command = commands.add("explain", "Shows the graph before and after the passes, the memory plan and the time of each step.");
  add_model_options(command, options->model);
  add_input_options(command, options->inputs);
  add_shape_options(command, options->inputs);
  command.runs([options](bool json) { return explain(*options, json); });
}

}  // namespace gluino::cli
