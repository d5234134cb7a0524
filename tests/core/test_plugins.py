"""The plug-in search finds what the folders hold and names what is near."""

import dataclasses
import importlib
import pkgutil
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

import rayfed
from rayfed.algorithms import FedAvg
from rayfed.core import plugins
from rayfed.core.errors import ScenarioError
from rayfed.population import ConstantDelay, Delay

ROOT = Path(__file__).parents[2]


def test_every_kind_finds_named_frozen_dataclasses_of_its_base():
    for kind in plugins.KINDS:
        found = plugins.find(kind)
        assert found, kind
        for name, cls in found.items():
            assert cls.name == name
            assert issubclass(cls, plugins.base(kind))
            assert dataclasses.is_dataclass(cls)
            assert cls.__dataclass_params__.frozen


def test_no_class_with_a_name_is_overlooked():
    """The search reads ``name: ClassVar[str] = "..."`` in sources; another form is not found."""
    pytest.importorskip("torch", reason="needs torch")
    for kind, where in plugins.ALL_KINDS.items():
        base, home = plugins.base(kind), importlib.import_module(where.home)
        inside = pkgutil.walk_packages(getattr(home, "__path__", []), f"{where.home}.")
        modules = [home, *(importlib.import_module(module.name) for module in inside)]
        classes = {c for m in modules for c in vars(m).values() if isinstance(c, type)}
        named = {c for c in classes if issubclass(c, base) and "name" in vars(c)} - {base}
        assert {c.name for c in named} == set(plugins.find(kind)), kind
        assert named >= set(plugins.find(kind).values()), kind


def test_bases_are_no_plugins():
    for kind in plugins.KINDS:
        assert plugins.base(kind) not in plugins.find(kind).values()


def test_a_folder_is_searched_file_by_file():
    assert plugins.find("algorithms")["fedavg"] is FedAvg


def test_a_name_is_found_where_the_search_finds_it():
    """Whether a file bears its name or not."""
    for kind in plugins.KINDS:
        for name, cls in plugins.find(kind).items():
            assert plugins.resolve(kind, name) is cls


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ScenarioError, match=r"unknown delay 'constnt'; did you mean 'constant'\?"):
        plugins.resolve("delays", "constnt")


def test_the_users_own_class(monkeypatch):
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Slow(Delay):
        name = "slow"

    module = types.ModuleType("own_delays")
    module.Slow, module.other = Slow, 3
    Slow.__module__, Slow.__qualname__ = "own_delays", "Slow"
    monkeypatch.setitem(sys.modules, "own_delays", module)
    assert plugins.resolve("delays", "own_delays:Slow") is Slow
    assert plugins.name_of(Slow()) == plugins.name_of(Slow) == "own_delays:Slow"
    with pytest.raises(ScenarioError, match="is not a subclass of Delay"):
        plugins.resolve("delays", "own_delays:other")
    with pytest.raises(ScenarioError, match="module 'own_delays' has no 'Fast'"):
        plugins.resolve("delays", "own_delays:Fast")


def test_a_module_that_is_not_there():
    with pytest.raises(ScenarioError, match="no module 'no_such_module'"):
        plugins.resolve("delays", "no_such_module:Slow")


def test_a_module_that_another_one_imports_is_named_with_the_lines(tmp_path, monkeypatch):
    (tmp_path / "outer_part.py").write_text("import inner_part\n")
    (tmp_path / "inner_part.py").write_text("\nimport no_such_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    lines = r"no module 'no_such_part' \(inner_part.py:2 <- outer_part.py:1\); is it on the path"
    with pytest.raises(ScenarioError, match=lines):
        plugins.resolve("delays", "outer_part:Slow")


def test_names_of_our_own():
    assert (
        plugins.name_of(ConstantDelay(mean_s=2.0)) == plugins.name_of(ConstantDelay) == "constant"
    )


def test_a_class_of_a_notebook_that_has_ended_is_named():
    with pytest.raises(ScenarioError, match="'Gone' was of a script or notebook; define it again"):
        plugins.load("__main__:Gone")


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("algorithms", "power-of-choice", "it is participation.select: power-of-d"),
        ("algorithms", "FedSGD", "it is fedavg with local: {steps: 1, batch: full}"),
        ("selections", "Power_of_Choice", "it is power-of-d"),
        ("algorithms", "power-of-d", "it is of another kind: selection"),
        ("delays", "uniforn", "did you mean 'uniform'?"),
        ("partitions", "uniform", "it is of another kind: step count, delay, selection, walk"),
    ],
)
def test_what_is_known_by_another_name_or_of_another_kind_is_said(kind, name, told):
    with pytest.raises(ScenarioError) as error:
        plugins.resolve(kind, name)
    assert str(error.value).endswith(f"unknown {plugins.singular(kind)} '{name}'; {told}")


def test_hints_name_what_there_is():
    for (kind, called), text in plugins.OTHER_NAMES.items():
        assert called not in {"".join(filter(str.isalnum, name)) for name in plugins.find(kind)}
        words = set(re.findall(r"[a-z][a-z0-9-]+", text))
        assert words & set(plugins.find(kind)) or words & set(plugins.find("selections"))


def test_whose_a_file_is(tmp_path):
    package = Path(plugins.__file__).parents[1]
    (tmp_path / "link").symlink_to(package.parent)
    beside = f"{package}_plugins/mine.py"
    for users in (beside, str(tmp_path / "mine.py")):
        assert plugins.is_users(users)
    installed = str(tmp_path / "lib/site-packages/a/b.py")
    ours = (plugins.__file__, str(tmp_path / "link/rayfed/core/plugins.py"))
    for other in (*ours, re.__file__, installed, "<string>"):
        assert not plugins.is_users(other)


def local(mean):
    class Slow(ConstantDelay):
        """Another delay at each call."""

        mean_s: float = mean

    return Slow


def test_what_has_no_name_to_import_is_found_while_there_is_one():
    first = local(1.0)
    name = plugins.name_of(first)
    assert plugins.load(name) is first
    assert plugins.name_of(first) == name
    assert plugins.load(name) is first
    plugins.name_of(local(2.0))
    for path in (name, "module:<lambda>", "module:f.<locals>.Slow"):
        with pytest.raises(ScenarioError, match="define it at the top of a module or notebook"):
            plugins.load(path)


def test_a_name_that_a_module_lacks_gets_what_the_module_has(tmp_path, monkeypatch):
    source = """
        from dataclasses import dataclass
        from typing import ClassVar
        from rayfed.algorithms.fedavg import FedAvg

        class Helper: ...

        def clip(values): ...

        @dataclass(frozen=True, kw_only=True)
        class ClippedAvg(FedAvg):
            name: ClassVar[str] = "clipped"
    """
    (tmp_path / "mine_with_hints.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, hint in (
        ("ClipedAvg", r"has no 'ClipedAvg'; did you mean 'ClippedAvg'\?"),
        ("Zzz", "has no 'Zzz'; known: ClippedAvg, Helper, clip$"),  # nothing that it imports
        ("Helper", "is not a subclass of Algorithm; known: ClippedAvg$"),
    ):
        with pytest.raises(ScenarioError, match=hint):
            plugins.resolve("algorithms", f"mine_with_hints:{name}")


@pytest.mark.parametrize("kind", plugins.KINDS)
def test_classes_are_imported_from_the_package_they_live_in(kind):
    package = importlib.import_module(".".join(plugins.KINDS[kind].home.split(".")[:2]))
    found = {cls.__name__: cls for cls in (*plugins.find(kind).values(), plugins.base(kind))}
    assert {name: getattr(package, name) for name in found} == found
    assert {*found} <= {*dir(package)}


PACKAGES = sorted({".".join(kind.home.split(".")[:2]) for kind in plugins.KINDS.values()})


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_classes_of_a_package_share_a_name(package):
    kinds = [kind for kind, each in plugins.KINDS.items() if each.home.startswith(package)]
    names = [cls for kind in kinds for cls in plugins.classes(kind)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("package", PACKAGES)
def test_editors_see_the_classes_that_are_found(package):
    text = (ROOT / package.replace(".", "/") / "__init__.py").read_text("utf-8")
    listed = re.findall(r"^    from (\S+) import (\w+) as \2$", text, re.M)
    found = {(home, cls) for cls, home in plugins.packaged(package).items()}
    wanted = "".join(f"    from {home} import {cls} as {cls}\n" for home, cls in sorted(found))
    assert {*listed} == found, f"write under TYPE_CHECKING:\n{wanted}"


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        (rayfed.datasets, "Dirchlet", "'Dirchlet'; did you mean 'Dirichlet'"),
        (rayfed, "partition", "has no attribute 'partition'"),
    ],
)
def test_a_class_that_is_not_there(module, name, told):
    with pytest.raises(AttributeError, match=told):
        getattr(module, name)


def test_classes_are_imported_when_they_are_asked_for():
    program = """if True:
        import sys, rayfed
        loaded = {name for name in sys.modules if name.startswith("rayfed")}
        assert loaded == {"rayfed", "rayfed.core", "rayfed.core.moved"}
        assert "population" in dir(rayfed)
        from rayfed.solvers import Cosine
        assert "rayfed.algorithms.fedavg" not in sys.modules
        from rayfed.algorithms import FedExP
        assert FedExP.name == "fedexp"
        assert "rayfed.algorithms.scaffold" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_mypy_sees_classes_and_their_settings(tmp_path):
    """As an editor does: of names that do not exist, too."""
    file = tmp_path / "typed.py"
    file.write_text(
        "import rayfed\n"
        "from rayfed.algorithms import FedAvg\n"
        "from rayfed.solvers import SGD\n"
        "FedAvg(local=SGD(steps=5), server_lr=1.0)\n"
        "rayfed.datasets.Dirichlet(alpha=0.3)\n"
        "FedAvg(serverlr=1.0)\n"
        "rayfed.datasets.Dirchlet\n"
        "rayfed.Study(round=3)\n"
        "made = (FedAvg(),)\n"
        "problem, data = rayfed.problems.LeastSquares(), rayfed.datasets.Linear(test=0.2)\n"
        "rayfed.run(problem=problem, data=data, algorithms=made, rounds=2, page=False)\n"
        "rayfed.iterate(problem=problem, data=data, algorithms=made, round=2)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    lines = [line.partition("typed.py:")[2] for line in told.splitlines() if ": error: " in line]
    assert sorted({line.partition(":")[0] for line in lines}) == ["12", "6", "7", "8"]
