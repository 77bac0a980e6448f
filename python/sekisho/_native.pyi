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
