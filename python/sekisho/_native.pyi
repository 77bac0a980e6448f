class SekishoError(ValueError): ...

def solve(name: str, text: str, form: str, method: str | None) -> str: ...
def simulate(
    name: str,
    text: str,
    form: str,
    seed: int | None,
    precision: float,
    replications: int,
    max_requests: int,
    threads: int | None,
) -> str: ...
def runs(files: list[tuple[str, str]]) -> str: ...
def histogram(file: tuple[str, str], class_: str | None, /) -> str: ...
def intervals(file: tuple[str, str], class_: str | None, /) -> str: ...
def knees(files: list[tuple[str, str]]) -> str: ...
def probes(file: tuple[str, str], /) -> str: ...
def fit(
    files: list[tuple[str, str]],
    cores: int | None,
    slots: int | None,
    seed: int,
    date: str,
) -> str: ...
def ask(
    name: str,
    text: str,
    form: str,
    clients: list[int],
    rates: list[float],
    slots: list[int],
    class_: str | None,
    seed: int | None,
    /,
) -> str: ...
