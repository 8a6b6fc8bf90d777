"""python -m gluino: the command line. Operators, models and the build, without writing a script."""
import argparse
import sys

import gluino as mx
from gluino import _core


def show_ops(args):
    """Names of operators, or the page of one."""
    if args.name:
        print(_core.make_operator(args.name, args.name, False, False).__doc__)
        return
    print("\n".join(sorted({op for _, op in _core.operator_names()})))


def show_summary(args):
    """Layers of a -symbol.json."""
    shapes = {}
    for item in args.shape:
        name, _, extents = item.partition("=")
        shapes[name] = tuple(int(e) for e in extents.strip("()").split(",") if e)
    mx.viz.print_summary(mx.sym.load(args.file), shapes or None)


def show_params(args):
    """Names, shapes and dtypes of a file of arrays."""
    loaded = mx.nd.load(args.file)
    for name, value in loaded.items() if isinstance(loaded, dict) else enumerate(loaded):
        print(f"{name}\t{value.shape}\t{mx.base.dtype_name(value.dtype)}")


def show_info(args):
    """Versions and features."""
    print(f"gluino {mx.__version__}, {len({op for _, op in _core.operator_names()})} operators, {_core.num_threads()} threads")
    print(", ".join(f.name for f in mx.runtime.feature_list() if f.enabled))


def main(argv=None):
    """Runs one command."""
    parser = argparse.ArgumentParser(prog="python -m gluino", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    ops = commands.add_parser("ops", help="list operators, or describe one")
    ops.add_argument("name", nargs="?")
    summary = commands.add_parser("summary", help="layers of a -symbol.json")
    summary.add_argument("file")
    summary.add_argument("--shape", action="append", default=[], help="data=1,3,224,224")
    params = commands.add_parser("params", help="arrays of a .params, .npz or .npy file")
    params.add_argument("file")
    commands.add_parser("info", help="versions and features")
    args = parser.parse_args(argv)
    try:
        {"ops": show_ops, "summary": show_summary, "params": show_params, "info": show_info}[args.command](args)
    except mx.MXNetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
