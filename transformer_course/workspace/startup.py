# With `make lab`, each kernel runs this file before the first cell. It defines no names.
if "get_ipython" in globals():
    __import__("transformer_course.workspace.name_error_hint", fromlist=["watch"]).watch(get_ipython())  # noqa: F821
    __import__("transformer_course.workspace.predictions", fromlist=["watch"]).watch(get_ipython())  # noqa: F821
