"""Check that modules made by torch.fx run the code of the graph that they hold."""

from __future__ import annotations

from types import CodeType
from typing import Any

from torch import fx
from torch.fx import graph_module

from blrc.errors import BlrcError

# torch.fx gives each its own class, whose __call__ only makes errors readable: this code, and an object of that class.
_WRAPPED_CALL: Any = graph_module._WrappedCall
_CALL_OF_WRAPPED = _WRAPPED_CALL.__call__
_CODES_OF_CALL = [code for code in fx.GraphModule.recompile.__code__.co_consts if isinstance(code, CodeType)]


def check_graph_module(who: str, module: fx.GraphModule) -> None:
    """Refuse a module of torch.fx that runs another graph than it holds, or whose ``__call__`` was replaced."""
    own = vars(type(module))
    wrapped: Any = own.get("_wrapped_call")
    if (
        getattr(own.get("__call__"), "__code__", None) not in _CODES_OF_CALL
        or type(wrapped) is not _WRAPPED_CALL
        or _WRAPPED_CALL.__call__ is not _CALL_OF_WRAPPED
        or wrapped.cls is not type(module)
        or wrapped.cls_call is not None
        or "_wrapped_call" in vars(module)
    ):
        raise BlrcError(
            f"{who}: the __call__ of its fx.GraphModule was replaced, which cannot be followed; make it anew from its "
            "graph"
        )
    try:
        fresh = module.graph.python_code(root_module="self")
        expected = graph_module._forward_from_src(fresh.src, dict(fresh.globals))
    except Exception as error:
        raise BlrcError(
            f"{who}: the graph of its fx.GraphModule gives no code ({type(error).__name__}); make it anew"
        ) from error
    runs: Any = getattr(own.get("forward"), "__code__", None)
    if fresh.src != module.code or runs != expected.__code__:
        raise BlrcError(
            f"{who}: its fx.GraphModule runs other code than its graph; call recompile() on it before saving, and "
            "leave the forward of its class alone"
        )
