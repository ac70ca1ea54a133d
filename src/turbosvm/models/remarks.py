"""What of a model its person may not have meant: it runs, so it is no error, and a sentence tells of it."""

import warnings
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from turbosvm.errors import TurboSVMError
from turbosvm.models.contract import Head, frozen_in

FAR = 100.0
"""How large the numbers are that are tried in the head: logits grow with them, and what is squashed does not."""
CLOSE = 1e-3


def remarks_on(module: nn.Module, head: Head, inputs: Tensor, head_rule: bool) -> list[str]:
    """Sentences on a model, given some inputs; it is left as it was. `head_rule` if one is to merge its head.

    Raises:
        TurboSVMError: it makes parameters or buffers when it trains, of which the server would not know.
    """
    kind = type(module).__name__
    found: list[str | None] = []
    if len(frozen_in(module)) == len(list(module.parameters())):
        found.append(f"All parameters of model {kind} are frozen (requires_grad is False): nothing is trained.")
    try:
        tried = deepcopy(module)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same ones come when it trains
            squashed = _squashed(tried, head, inputs)
            found.append(f"Model {kind} gives {squashed}" if squashed else None)
            found.append(_behind(tried, head, inputs) if head_rule and not squashed else None)
            found += [_changed(tried, inputs, training) for training in (False, True)]
    except TurboSVMError:
        raise
    except Exception:  # what cannot be tried so is told of where it fails, or can be trained all the same
        return [remark for remark in found if remark]
    return [remark for remark in found if remark]


def _squashed(module: nn.Module, head: Head, inputs: Tensor) -> str | None:
    """What a model gives in the place of logits, if so; cross-entropy applies softmax itself.

    It is tried with its own head, and with large numbers of either sign in the head's place.
    """
    own, rng = dict(module.named_parameters()), torch.Generator().manual_seed(0)
    drawn = {name: FAR * torch.randn(own[name].shape, generator=rng).to(own[name]) for name in head.names}
    module.eval()
    negative = {name: -value for name, value in drawn.items()}
    answers = torch.cat([module(inputs), *(functional_call(module, heads, (inputs,)) for heads in (drawn, negative))])
    if not answers.isfinite().all() or bool((answers == answers[0, 0]).all()):
        return None
    if bool(((answers >= 0) & (answers <= 1)).all()):
        what = ("probabilities", "Softmax") if _adds_up(answers) else ("numbers from 0 to 1", "Sigmoid")
        return (
            f"{what[0]}, as a {what[1]} behind its head does: the loss takes logits; leave it out, or little is learnt."
        )
    if bool((answers <= 0).all()) and _adds_up(answers.exp()):
        return "logarithms of probabilities, as a LogSoftmax behind its head does: the loss takes that step itself."
    return None


def _adds_up(answers: Tensor) -> bool:
    return bool((answers.float().sum(dim=1) - 1).abs().max() <= CLOSE)


def _behind(module: nn.Module, head: Head, inputs: Tensor) -> str | None:
    """Whether something stands between the head's answers and the model's."""
    given: list[Tensor] = []
    handle = module.get_submodule(head.layer).register_forward_hook(lambda *call: given.append(call[2].clone()))
    module.eval()
    try:
        logits = module(inputs)
    finally:
        handle.remove()
    if len(given) != 1 or (given[0].shape == logits.shape and torch.allclose(given[0], logits, rtol=CLOSE, atol=CLOSE)):
        return None
    return (
        f"The answers of model {type(module).__name__} are not those of its head '{head.layer}': something behind the "
        "head changes them, and the algorithm's head rule does not know of that."
    )


def _names(module: nn.Module) -> list[str]:
    return [name for name, _ in (*module.named_parameters(), *module.named_buffers())]


def _changed(module: nn.Module, inputs: Tensor, training: bool) -> str | None:
    """What a model does to itself when it runs that this framework does not follow."""
    kind, asked = type(module).__name__, "training" if training else "evaluation"
    names = set(_names(module))
    module.train(training)
    modes = {name: layer.training for name, layer in module.named_modules()}
    module(inputs)
    if new := [name for name in _names(module) if name not in names]:
        raise TurboSVMError(
            f"Model {kind} makes '{new[0]}' only when it runs in {asked} mode; all parameters and buffers must be "
            "there before, for instance made in its constructor."
        )
    turned = [name for name, layer in module.named_modules() if layer.training != modes.get(name, layer.training)]
    if turned:
        what = f"layer '{turned[0]}'" if turned[0] else "itself"
        return (
            f"Model {kind} changes the mode of {what} when it runs in {asked} mode: BatchNorm, dropout and the "
            "like may then do what they should not."
        )
    return None
