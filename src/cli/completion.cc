// gluino completion: what shells and man want to know of the command line, written from its own definitions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace gluino::cli {
namespace {

std::vector<const CLI::App*> commands_of(CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) commands.push_back(command);
  return commands;
}

std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// The values that an option may have, from "TEXT:{NCHW,NHWC}"; empty where it may have any.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

std::string bash_script(CLI::App& app) {
  std::vector<std::string> names;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    names.push_back(command->get_name());
    std::vector<std::string> words;
    std::string values;
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string> own = spellings(*option);
      words.insert(words.end(), own.begin(), own.end());
      if (const auto choices = choices_of(*option); !own.empty() && !choices.empty())
        values += fmt::format("        {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", fmt::join(own, "|"),
                              fmt::join(choices, " "));
    }
    cases += fmt::format("    {})\n      case \"$before\" in\n{}      esac\n      options=\"{}\" ;;\n", command->get_name(), values,
                         fmt::join(words, " "));
  }
  return fmt::format(R"(# bash completion for gluino
_gluino() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" options=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "${{word##*=}}"))
  fi
}}
complete -o filenames -F _gluino gluino
)",
                     fmt::join(names, " "), cases);
}

// Text inside an argument of zsh's _arguments, which is itself in single quotes.
std::string for_zsh(const std::string& text) {
  std::string safe;
  for (char c : text) {
    if (c == '\'')
      safe += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      safe += std::string("\\") + c;
    else
      safe += c;
  }
  return safe;
}

std::string zsh_script(CLI::App& app) {
  std::string list, cases;
  for (const CLI::App* command : commands_of(app)) {
    list += fmt::format("    '{}:{}'\n", command->get_name(), for_zsh(command->get_description()));
    cases += fmt::format("    {})\n      _arguments \\\n", command->get_name());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : spellings(*option)) {
        const auto choices = choices_of(*option);
        const std::string action = !takes_value(*option) ? ""
                                   : choices.empty()     ? ":value:_files"
                                                         : fmt::format(":value:({})", fmt::join(choices, " "));
        cases += fmt::format("        '{}[{}]{}' \\\n", name, for_zsh(option->get_description()), action);
      }
    cases += "        '*:file:_files' ;;\n";
  }
  return fmt::format(
      "#compdef gluino\n_gluino() {{\n  local -a commands=(\n{}  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    "
      "return\n  fi\n  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n{}  esac\n}}\n_gluino \"$@\"\n",
      list, cases);
}

// troff takes a dot or a quote at the beginning of a line, and every backslash and dash, for its own.
std::string for_man(const std::string& text) {
  std::string safe;
  for (char c : text) {
    if (c == '\\')
      safe += "\\\\";
    else if (c == '-')
      safe += "\\-";
    else if ((c == '.' || c == '\'') && (safe.empty() || safe.back() == '\n'))
      safe += std::string("\\&") + c;
    else
      safe += c;
  }
  return safe;
}

std::string man_page(CLI::App& app) {
  std::string page =
      ".TH GLUINO 1\n.SH NAME\ngluino \\- command line for models of MXNet and gluino\n.SH SYNOPSIS\n.B gluino\n.I COMMAND\n[options]\n.SH "
      "DESCRIPTION\n" +
      for_man(app.get_description()) + "\n.SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app)) {
    std::string places;
    for (const CLI::Option* option : command->get_options())
      if (spellings(*option).empty())
        places += option->get_required() ? " " + option->get_name() : fmt::format(" [{}]", option->get_name());
    page += fmt::format(".SS gluino {}{} [options]\n{}\n", command->get_name(), for_man(places), for_man(command->get_description()));
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string> names = spellings(*option);
      const std::string name = names.empty() ? option->get_name() : fmt::format("{}", fmt::join(names, ", "));
      page += fmt::format(".TP\n.B {}{}\n{}\n", for_man(name),
                          names.empty() || !takes_value(*option) ? "" : " " + for_man(option->get_type_name()),
                          for_man(option->get_description()));
    }
  }
  return page +
         ".SH EXIT STATUS\n0: done. 1: the task has failed: a file cannot be read, a model not be run, answers differ. 2: the command line "
         "is wrong.\n";
}

int print_completion(Commands& commands, const std::string& form) {
  fmt::print("{}", form == "bash" ? bash_script(commands.app()) : form == "zsh" ? zsh_script(commands.app()) : man_page(commands.app()));
  return 0;
}

}  // namespace

void add_completion(Commands& commands) {
  auto form = std::make_shared<std::string>();
  Command command = commands.add("completion", "Prints the completion of bash or zsh, or the page for man.");
  command.option("FORM", *form, "what for").required().choices({"bash", "zsh", "man"});
  command.hide();
  command.runs_without_json([&commands, form] { return print_completion(commands, *form); });
}

}  // namespace gluino::cli
