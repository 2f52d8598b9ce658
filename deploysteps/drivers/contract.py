"""What every hardware interface has: its steps, and how one is run."""

from __future__ import annotations

import abc
import copy
import functools
import inspect
import types
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from deploysteps import exceptions, protocols, states, steps, texts
from deploysteps.drivers import collect, marks
from deploysteps.drivers.periodic import Periodic


class BaseInterface(abc.ABC):  # noqa: B024 - so that a derived class may have abstract methods
    """Base of all hardware interfaces.

    Driver authors derive from one of the thirteen kinds (``PowerInterface``,
    ``DeployInterface``, ...) and decorate methods. Instances are shared by all
    nodes and threads: what belongs to a node is kept in the node.
    """

    interface_type: ClassVar[str | None] = None
    """One of ``steps.INTERFACE_TYPES``. Mixins and abstract bases need none."""

    declared_steps: ClassVar[collect.Declared] = {flow: {} for flow in steps.FLOWS}
    """Flow name -> step name -> declaration, in the order of declaration."""

    declared_periodics: ClassVar[Mapping[str, Periodic]] = {}
    """Method -> declaration, of what ``@node_periodic`` marks."""

    _dropped_steps: ClassVar[frozenset[collect.Dropped]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Collect the class's steps; refuse a declaration that cannot work."""
        super().__init_subclass__(**kwargs)
        _check_type(cls)
        told: frozenset[collect.Dropped] = frozenset().union(
            *(getattr(base, "_dropped_steps", ()) for base in cls.__bases__)
        )
        found, cls._dropped_steps = collect.collect(cls, _RESERVED, told)
        cls.declared_periodics = found.pop(marks.PERIODIC)
        cls.declared_steps = types.MappingProxyType(found)

    @classmethod
    def declaration(cls, flow: str, step: str) -> steps.Declaration | None:
        """Return what the class declares about a step, or None if it has none.

        :param flow: name of the flow, such as ``deploy``.
        :param step: name of the method.
        """
        return cls.declared_steps[flow].get(step) if flow in cls.declared_steps else None

    @functools.cached_property
    def deploy_steps(self) -> list[steps.StepDict]:
        """The deploy steps of the class as dicts, in the order of declaration."""
        return self._step_dicts(steps.DEPLOY)

    @functools.cached_property
    def clean_steps(self) -> list[steps.StepDict]:
        """The clean steps of the class as dicts, in the order of declaration."""
        return self._step_dicts(steps.CLEAN)

    @functools.cached_property
    def verify_steps(self) -> list[steps.StepDict]:
        """The verify steps of the class as dicts, in the order of declaration."""
        return self._step_dicts(steps.VERIFY)

    @functools.cached_property
    def service_steps(self) -> list[steps.StepDict]:
        """The service steps of the class as dicts, in the order of declaration."""
        return self._step_dicts(steps.SERVICE)

    def get_properties(self) -> dict[str, str]:
        """Return what may be set in ``driver_info``: name -> description."""
        return {}

    def validate(self, task: protocols.Task) -> None:
        """Check that the node has what this interface needs.

        :raises InvalidParameterValue: naming what is wrong or missing.
        """
        return None

    def get_deploy_steps(self, task: protocols.Task) -> list[steps.StepDict]:
        """Return the deploy steps of this interface for the task's node.

        May be overridden to add to them, or to leave some out, per node. The
        dicts are the caller's own: changing them changes no declaration.
        """
        return self._own_steps(self.deploy_steps)

    def execute_deploy_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """Run a declared deploy step with its arguments.

        :param step: a step's dict; ``step`` and ``args`` are read.
        :returns: what the method returned: None (done) or a wait state.
        :raises DeployStepFailed: when the class declares no such step.
        """
        return self._execute(steps.DEPLOY, task, step)

    def get_clean_steps(self, task: protocols.Task) -> list[steps.StepDict]:
        """As :meth:`get_deploy_steps`, for the clean steps."""
        return self._own_steps(self.clean_steps)

    def execute_clean_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """As :meth:`execute_deploy_step`, for a clean step.

        :raises CleanStepFailed: when the class declares no such step.
        """
        return self._execute(steps.CLEAN, task, step)

    def get_verify_steps(self, task: protocols.Task) -> list[steps.StepDict]:
        """As :meth:`get_deploy_steps`, for the verify steps."""
        return self._own_steps(self.verify_steps)

    def execute_verify_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """As :meth:`execute_deploy_step`, for a verify step.

        :raises VerifyStepFailed: when the class declares no such step.
        """
        return self._execute(steps.VERIFY, task, step)

    def get_service_steps(self, task: protocols.Task) -> list[steps.StepDict]:
        """As :meth:`get_deploy_steps`, for the service steps."""
        return self._own_steps(self.service_steps)

    def execute_service_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """As :meth:`execute_deploy_step`, for a service step.

        :raises ServiceStepFailed: when the class declares no such step.
        """
        return self._execute(steps.SERVICE, task, step)

    def check_step(self, task: protocols.Task, step: Mapping[str, Any]) -> states.StepStatus:
        """Tell whether a step of this interface that waits is done.

        Asked when the machine's agent beats and, for a step that returned
        ``states.wait(..., poll=...)``, on the timer; such a step needs an
        override of this method, for nobody else can know.

        :returns: ``StepStatus.DONE`` or ``StepStatus.RUNNING``.
        :raises Exception: any; the step has failed for this reason.
        """
        return states.StepStatus.DONE

    def adopt_step(self, task: protocols.Task, step: Mapping[str, Any]) -> str | None:
        """Tell whether a step goes on whose conductor was lost while its code ran.

        Asked at the next start, or by the conductor that takes the node over.
        An interface that can find its work again, such as a job of the
        machine's controller, answers as the step itself would have.

        :returns: the wait state: the step goes on, and its wait ends as any
            other; None: it cannot be told, and what the step declared of
            being ``repeatable`` decides.
        """
        return None

    def _own_steps(self, declared: list[steps.StepDict]) -> list[steps.StepDict]:
        self._require_type()
        return copy.deepcopy(declared)

    def _step_dicts(self, flow: steps.StepFlow) -> list[steps.StepDict]:
        return [
            {
                "step": name,
                "priority": declared.priority,
                "argsinfo": copy.deepcopy(declared.argsinfo),
                "interface": self.interface_type,
                "abortable": declared.abortable,
                "repeatable": declared.repeatable,
                "timeout": declared.timeout,
                "retries": declared.retries,
                "retry_delay": declared.retry_delay,
                **({"requires_ramdisk": declared.requires_ramdisk} if flow.no_ramdisk else {}),
            }
            for name, declared in self.declared_steps[flow.name].items()
        ]

    def _execute(self, flow: steps.StepFlow, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        interface = self._require_type()
        name, args = step.get("step"), step.get("args")
        declared = self.declared_steps[flow.name]
        if step.get("agent"):
            raise flow.error(
                f"{step.get('interface')}.{name} is a step of the machine's agent, and the "
                f"{interface} interface {type(self).__name__}, whose agent_steps() told of it, "
                f"does not override {flow.execute}() to hand it to the agent"
            )
        if not isinstance(name, str) or name not in declared:
            raise flow.error(
                f"{interface} interface {type(self).__name__} has no {flow.name} step "
                f"{name!r}{did_you_mean(name, declared)}"
            )
        if not isinstance(args, Mapping | None):
            raise flow.error(
                f"the args of {interface}.{name} are a {type(args).__name__}, not a mapping"
            )
        method, given = getattr(self, name), args or {}
        misfit = _misfit(method, task, given)
        if misfit:  # as when the plan is of another version of the driver
            raise flow.error(
                f"{interface} interface {type(self).__name__} does not take the arguments with "
                f"which its {flow.name} step was planned: {misfit}"
            )
        return method(task, **given)

    def _require_type(self) -> str:
        if self.interface_type is None:
            raise exceptions.StepDeclarationError(
                f"{type(self).__module__}.{type(self).__qualname__} has no interface_type; derive "
                "it from one of the interface classes in deploysteps.drivers.base, or set "
                f"interface_type to one of {', '.join(steps.INTERFACE_TYPES)}"
            )
        return self.interface_type


def _misfit(method: Any, task: protocols.Task, args: Mapping[str, Any]) -> str | None:
    """Return why a method cannot be called so, or None; no value is in the words."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return None  # it does not tell what it takes
    try:
        signature.bind(task, **args)
    except TypeError as exc:
        return str(exc)
    return None


def _check_type(cls: type[BaseInterface]) -> None:
    kind = cls.interface_type
    if kind is not None and kind not in steps.INTERFACE_TYPES:
        raise exceptions.StepDeclarationError(
            f"{cls.__module__}.{cls.__qualname__} has interface_type {kind!r}; write one of "
            f"{', '.join(steps.INTERFACE_TYPES)}"
        )


_RESERVED = frozenset(vars(BaseInterface))
"""Names that cannot be steps."""


class DescribedInterface(BaseInterface):
    """An interface that must say what it needs of a node, and check it."""

    @abc.abstractmethod
    def get_properties(self) -> dict[str, str]:
        """See :meth:`BaseInterface.get_properties`."""

    @abc.abstractmethod
    def validate(self, task: protocols.Task) -> None:
        """See :meth:`BaseInterface.validate`."""


def overrides_check_step(interface: BaseInterface) -> bool:
    """Tell whether the interface says itself when a waiting step is done."""
    method = interface.check_step
    return getattr(method, "__func__", None) is not BaseInterface.check_step


def current_flow(node: protocols.Node) -> steps.StepFlow:
    """Return the flow that a node is in.

    :raises InvalidState: when it is in none.
    """
    flow = steps.flow_of_state(node.provision_state)
    if flow is None:
        raise exceptions.InvalidState(
            f"no steps run on a node in state {node.provision_state!r}, so nothing can wait"
        )
    return flow


def wait_state(task: protocols.Task) -> str:
    """Return the state in which the flow that the node is in waits.

    For a step that serves several flows: return it, or ``states.wait()`` of it.

    :raises DeployStepsException: the flow's own error when it cannot wait;
        ``InvalidState`` when the node is in no flow.
    """
    return waiting_state_of(task.node)


def waiting_state_of(node: protocols.Node) -> str:
    """As :func:`wait_state`, of a node."""
    flow = current_flow(node)
    if flow.waiting is None:
        raise flow.error(
            f"a {flow.name} step cannot wait; end it in one go, or leave @{flow.name}_step away"
        )
    return flow.waiting


def unsupported(task: protocols.Task, extension: str) -> exceptions.UnsupportedDriverExtension:
    """Return the error that says that the node's driver does not do this."""
    return exceptions.UnsupportedDriverExtension(driver=task.node.driver, extension=extension)


def did_you_mean(name: object, known: Collection[str]) -> str:
    """Return how to go on after "there is no such name", to end a message."""
    close = texts.closest(str(name), known)
    if close:
        return f"; did you mean {close!r}?"
    return f"; there are {', '.join(sorted(known)) or 'none'}"
