"""Counts amounts, ids, coordinates and exponents that a translation changes, by kind.

A running server translates 100 sentences of each kind in both directions. A value is wrong if it
does not occur in the translation as it is written in the source. A wrong value is silent if the
reply has no warning for it.

Example:
    .venv/bin/python -m service serve --port 8451 &
    .venv/bin/python -m benchmarks.values --url http://127.0.0.1:8451 --show
"""

import argparse
import random
import uuid
from collections.abc import Callable, Mapping

import httpx

TIMEOUT_SECONDS = 600.0
TEXTS_AT_ONCE = 50

Random = random.Random


def _grouped(rng: Random, groups: int, thousands: str, decimal: str) -> str:
    digits = [str(rng.randint(1, 999)), *(f"{rng.randint(0, 999):03}" for _ in range(groups))]
    return thousands.join(digits) + decimal + f"{rng.randint(0, 99):02}"


def _card(rng: Random) -> str:
    return " ".join(f"{rng.randint(0, 9999):04}" for _ in range(4))


def _timestamp(rng: Random) -> str:
    date = f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    return rng.choice([f"{date}T{clock}Z", f"{date} {clock}", f"{date}T{clock}.123+02:00"])


def _coordinates(rng: Random) -> str:
    return f"{rng.uniform(-89, 89):.{rng.randint(4, 6)}f}, {rng.uniform(-179, 179):.5f}"


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


VALUES: Mapping[str, Callable[[Random], str]] = {
    "R$ 1.234,56": lambda rng: f"R$ {_grouped(rng, 1, '.', ',')}",
    "R$ 1.234.567,89": lambda rng: f"R$ {_grouped(rng, 2, '.', ',')}",
    "US$ 1,234.56": lambda rng: f"US$ {_grouped(rng, 1, ',', '.')}",
    "€1.234,56": lambda rng: f"€{_grouped(rng, 1, '.', ',')}",
    "1,234.56 USD": lambda rng: f"{_grouped(rng, 1, ',', '.')} {rng.choice(['USD', 'EUR'])}",
    "32 hex digits": lambda rng: f"{rng.getrandbits(128):032x}",
    "40 hex digits": lambda rng: f"{rng.getrandbits(160):040x}",
    "UUID": lambda rng: str(uuid.UUID(int=rng.getrandbits(128))),
    "coordinates": _coordinates,
    "card number": _card,
    "timestamp": _timestamp,
    "order id": lambda rng: f"{rng.choice('ABKXZ')}{rng.randint(10**7, 10**9)}",
    "exponent": lambda rng: rng.choice(
        [
            f"{rng.randint(2, 99)}{_superscript(rng.randint(2, 12))}",
            f"{rng.randint(2, 9)} × 10{_superscript(rng.randint(-30, 60))}",
        ]
    ),
    "index": lambda rng: rng.choice(["H₂O", "CO₂", "m²", "km³", "C₆H₁₂O₆", "x₁", "xⁿ"]),
}

FRAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "en": {
        "amount": (
            "The invoice total is {}.",
            "Please pay {} by Friday.",
            "She transferred {} to her brother's account.",
            "The company reported a profit of {} last year.",
            "They paid {} for the old house by the river.",
            "A fine of {} was imposed on the driver.",
            "The budget grew to {} after the meeting.",
            "We refunded {} to the customer yesterday.",
        ),
        "id": (
            "The code is {}.",
            "Your request {} was received.",
            "Please send the file {} to the team.",
            "We could not find {} in the database.",
            "The record {} was deleted last night.",
            "Write down {} before you close the window.",
            "The value {} appears twice in the report.",
            "Contact us about {} if you need help.",
        ),
        "quantity": (
            "The result is {}.",
            "We measured about {} in the laboratory.",
            "The value of {} is large.",
            "The teacher wrote {} on the board.",
        ),
    },
    "pt": {
        "amount": (
            "O total da fatura é {}.",
            "Por favor, pague {} até sexta-feira.",
            "Ela transferiu {} para a conta do irmão.",
            "A empresa teve um lucro de {} no ano passado.",
            "Eles pagaram {} pela casa velha perto do rio.",
            "Uma multa de {} foi aplicada ao motorista.",
            "O orçamento subiu para {} depois da reunião.",
            "Devolvemos {} ao cliente ontem.",
        ),
        "id": (
            "O código é {}.",
            "O seu pedido {} foi recebido.",
            "Envie o arquivo {} para a equipe.",
            "Não encontramos {} no banco de dados.",
            "O registro {} foi apagado ontem à noite.",
            "Anote {} antes de fechar a janela.",
            "O valor {} aparece duas vezes no relatório.",
            "Fale conosco sobre {} se precisar de ajuda.",
        ),
        "quantity": (
            "O resultado é {}.",
            "Medimos cerca de {} no laboratório.",
            "O valor de {} é grande.",
            "A professora escreveu {} no quadro.",
        ),
    },
}

QUANTITIES = ("exponent", "index")
AMOUNTS = tuple(VALUES)[:5]


def _frame_kind(kind: str) -> str:
    if kind in QUANTITIES:
        return "quantity"
    return "amount" if kind in AMOUNTS else "id"


def _translate(
    client: httpx.Client, texts: list[str], source: str, target: str
) -> list[tuple[str, bool]]:
    """Returns each translation, and whether the reply has a warning for it."""
    found: list[tuple[str, bool]] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        batch = texts[start : start + TEXTS_AT_ONCE]
        body = {"q": batch, "source": source, "target": target}
        reply = client.post("/translate", json=body, timeout=TIMEOUT_SECONDS).raise_for_status()
        values = reply.json()
        warnings = values.get("warnings") or [[]] * len(batch)
        found += zip(values["translatedText"], map(bool, warnings), strict=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.values")
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8000", help="address of the server")
    add("--samples", type=int, default=100, help="number of sentences of each kind and direction")
    add("--show", action="store_true", help="also print each wrong translation")
    args = parser.parse_args()
    print("| kind | direction | wrong | without a warning |\n|---|---|---|---|")
    with httpx.Client(base_url=args.url) as client:
        for kind, make in VALUES.items():
            for source, target in (("en", "pt"), ("pt", "en")):
                rng = random.Random(7)
                values = [make(rng) for _ in range(args.samples)]
                frames = FRAMES[source][_frame_kind(kind)]
                texts = [rng.choice(frames).format(value) for value in values]
                found = _translate(client, texts, source, target)
                wrong = [
                    (text, translation, is_warned)
                    for text, value, (translation, is_warned) in zip(
                        texts, values, found, strict=True
                    )
                    if value not in translation
                ]
                silent = sum(not is_warned for *_, is_warned in wrong)
                print(f"| {kind} | {source}-{target} | {len(wrong)} | {silent} |", flush=True)
                for text, translation, is_warned in wrong if args.show else ():
                    print(f"    {text}\n    {translation}{' (warned)' * is_warned}")


if __name__ == "__main__":
    main()
