"""Runs *inside* the sandbox, by an interpreter of its own: limits first, then the code that came on stdin.

Never imported by the package: its text is handed to ``python -c``. It imports as little as it can, since every call
pays for it, and uses nothing newer than Python 3.8.
"""


def _limit(limits: "list[tuple[str, int]]") -> None:
    import resource

    for name, value in limits:
        kind = getattr(resource, "RLIMIT_" + name)
        # At the soft limit of CPU time comes a signal that says so, at the hard one a plain kill.
        hard = value + (name == "CPU")
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            hard = min(hard, ceiling)
        resource.setrlimit(kind, (min(value, hard), hard))


def _complain(error: BaseException) -> None:
    """Print the traceback without our own frames, with the source lines of the code."""
    import sys
    import traceback

    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != "<code>":
        frames = frames.tb_next
    sys.stdout.flush()
    traceback.print_exception(type(error), error, frames, limit=-8)
    sys.stderr.flush()


def _run(source: str) -> None:
    import _ast

    only_ast = 0x400
    scope = {"__name__": "__main__", "__builtins__": __builtins__}
    tree = compile(source, "<code>", "exec", only_ast)
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        last = _ast.Expression(tree.body.pop().value)
    exec(compile(tree, "<code>", "exec"), scope)
    if last is not None:
        value = eval(compile(last, "<code>", "eval"), scope)
        if value is not None:
            print(repr(value))


def _main() -> None:
    import sys

    _limit([(pair.split("=")[0], int(pair.split("=")[1])) for pair in sys.argv[1:]])
    sys.argv = ["<code>"]
    source = sys.stdin.buffer.read().decode()
    try:
        _run(source)
        sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:
        # The lines of the code are looked up only now, so that a run without an error does not pay for it.
        import linecache

        linecache.cache["<code>"] = (len(source), None, source.splitlines(True), "<code>")
        _complain(error)
        sys.exit(1)


_main()
