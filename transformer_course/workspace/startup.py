# `make lab` has each kernel run this before any cell. It leaves no name behind.
if "get_ipython" in globals():
    __import__("transformer_course.workspace.name_error_hint", fromlist=["watch"]).watch(get_ipython())  # noqa: F821
