"""Settings: typed by their schema, and every fault names the file, the key and the fix."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.config import (
    ChatModelSettings,
    CodeToolSettings,
    ModelToolSettings,
    SearchToolSettings,
    Section,
    Settings,
    SimulatedModelSettings,
    WarmStartSettings,
    load_settings,
    read_secret,
)
from toolorchestra.errors import UserError
from toolorchestra.preferences import Preference

ORCHESTRATOR = 'orchestrator: {model: m, base_url: "http://localhost:8000/v1"}\n'
KEY = "sk-" + "a1B2" * 8

FULL = """\
orchestrator: {model: ./policy, constrained: true, price: {input: 0.05, output: 0.2}, temperature: 1, max_tokens: 64}
models:
  gpt-5: &cloud {base_url: "https://api.openai.com/v1/", api_key_env: OPENAI_API_KEY, timeout_s: 90}
  small: {<<: *cloud, model: gpt-5-mini, retries: 1, price_name: "openai:gpt-5-mini"}
  sim: {provider: simulated, price: {input: 1.10, output: 4.4}, skills: {easy: 0.9}, seconds: 2}
tools:
  ask: {kind: model, model: gpt-5}
  code: {kind: code, seconds: 10, memory_mb: 256}
  local_search: {kind: search, folder: corpus, results: 3, price: {per_call_usd: 1e-3}}
prices: {base: null, override: ./prices.yaml}
preference: {text: "Prefer local search", compute: 0.5, tools: {local_search: 1}}
limits: {turns: 8, usd: 0.25, seconds: 300}
tasks: {train: tasks/train.jsonl}
training:
  learning_rate: 2e-5
  warm_start: {epochs: 2}
  masked_vote: yes
judge: {kind: model, model: small}
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "orchestra.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def full(tmp_path: Path, write: Write) -> Path:
    for folder in ("policy", "corpus", "tasks"):
        (tmp_path / folder).mkdir()
    for file in ("prices.yaml", "tasks/train.jsonl"):
        (tmp_path / file).touch()
    return write(FULL)


def fault(path: Path, **options: bool) -> str:
    with pytest.raises(UserError) as caught:
        load_settings(path, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


class TestWhole:
    def test_every_section_is_typed(self, full: Path, tmp_path: Path) -> None:
        settings = load_settings(full)
        assert settings.orchestrator.model == str(tmp_path / "policy")
        assert settings.orchestrator.constrained
        assert settings.orchestrator.price is not None
        assert settings.orchestrator.price.output == Decimal("0.2")
        gpt, small, sim = (settings.models[name] for name in ("gpt-5", "small", "sim"))
        assert isinstance(gpt, ChatModelSettings)
        assert (gpt.model, gpt.base_url, gpt.timeout_s) == ("gpt-5", "https://api.openai.com/v1", 90.0)
        assert isinstance(small, ChatModelSettings)
        assert (small.model, small.api_key_env, small.timeout_s, small.retries) == (
            "gpt-5-mini",
            "OPENAI_API_KEY",
            90,
            1,
        )
        assert isinstance(sim, SimulatedModelSettings)
        assert sim.price.input == Decimal("1.10")
        ask, code, search = (settings.tools[name] for name in ("ask", "code", "local_search"))
        assert isinstance(ask, ModelToolSettings)
        assert isinstance(code, CodeToolSettings)
        assert (code.seconds, code.memory_mb) == (10.0, 256)
        assert isinstance(search, SearchToolSettings)
        assert search.folder == tmp_path / "corpus"
        assert settings.prices.base is None
        assert settings.prices.override == tmp_path / "prices.yaml"
        assert settings.limits.usd == Decimal("0.25")
        assert settings.tasks.train == tmp_path / "tasks" / "train.jsonl"
        assert settings.training.learning_rate == 2e-5
        assert settings.training.warm_start == WarmStartSettings(epochs=2)
        assert settings.training.masked_vote is True

    def test_the_defaults_are_the_papers(self, write: Write) -> None:
        training = load_settings(write(ORCHESTRATOR)).training
        assert (training.group_size, training.clip_low, training.clip_high) == (8, 0.2, 0.28)
        assert (training.learning_rate, training.temperature, training.std_floor, training.ddof) == (1e-6, 1.0, 0.1, 0)
        assert training.train_layers is None
        assert load_settings(write(ORCHESTRATOR)).limits.turns == 50

    def test_a_preference_in_words_alone(self, write: Write) -> None:
        settings = load_settings(write(ORCHESTRATOR + "preference: keep it cheap\n"))
        assert Preference.from_json(settings.preference.model_dump()) == Preference(text="keep it cheap")

    def test_a_dump_is_json_and_reads_back(self, full: Path) -> None:
        settings = load_settings(full)
        dumped = json.loads(json.dumps(settings.dump()))
        assert dumped["models"]["sim"]["price"]["input"] == "1.10"
        assert Settings.model_validate(dumped) == settings

    def test_values_of_the_environment_are_nowhere(self, full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        settings = load_settings(full)
        assert "OPENAI_API_KEY" in repr(settings)
        assert KEY not in repr(settings) + str(settings) + json.dumps(settings.dump())
        assert read_secret("OPENAI_API_KEY") == KEY

    def test_an_unset_secret_names_its_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SOME_KEY", raising=False)
        with pytest.raises(UserError, match="SOME_KEY is not set; set it: export SOME_KEY="):
            read_secret("SOME_KEY")

    def test_settings_cannot_be_changed(self, write: Write) -> None:
        settings = load_settings(write(ORCHESTRATOR))
        with pytest.raises(ValueError, match="frozen"):
            settings.concurrency = 3

    def test_every_setting_says_what_it_is(self) -> None:
        def sections(of: type[Section]) -> list[type[Section]]:
            return [of, *(deeper for below in of.__subclasses__() for deeper in sections(below))]

        for section in sections(Section)[1:]:
            for name, field in section.model_fields.items():
                assert field.description, f"{section.__name__}.{name} has no docstring"


FAULTS: list[tuple[str, str]] = [
    # Types and ranges
    (
        "training: {learning_rate: abc}",
        "training.learning_rate (line 2): must be a number such as 0.5 or 1e-6, got 'abc'",
    ),
    ("training: {learning_rate: nan}", "training.learning_rate (line 2): must be a finite number, got 'nan'"),
    ("training: {learning_rate: 0}", "training.learning_rate (line 2): must be above 0, got '0'"),
    ("training: {steps: 1.5}", "training.steps (line 2): must be a whole number, got '1.5'"),
    ("training: {group_size: 1}", "training.group_size (line 2): must be at least 2, got '1'"),
    ("training: {ddof: 2}", "training.ddof (line 2): must be one of 0, 1"),
    (
        "training: {masked_vote: maybe}",
        "training.masked_vote (line 2): must be true or false, got 'maybe'",
    ),
    ("training: fast", "training (line 2): must be a section of keys, got 'fast'"),
    ("training:", "training (line 2): must be a section of keys, got nothing"),
    ("tools: [a, b]", "tools (line 2): must be a section of keys, got a list"),
    ("limits: {usd: much}", "limits.usd (line 2): must be an amount such as 0.25, got 'much'"),
    ("limits: {turns: {a: 1}}", "limits.turns (line 2): must be a whole number, got a section"),
    (
        "judge: {kind: modl}",
        "judge.kind (line 2): must be one of task, exact, number, math, model, got 'modl'; did you",
    ),
    ("prices: {base: litellm}", "prices.base (line 2): must be genai-prices, got 'litellm'"),
    ("preference: {outcome: 2}", "preference.outcome (line 2): must be at most 1, got '2'"),
    ("preference: {compute: -0.5}", "preference.compute (line 2): must be at least 0, got '-0.5'"),
    # Keys
    ("trainig: {}", "trainig (line 2): unknown key; did you mean 'training'?"),
    ("training: {learning_rat: 1}", "training.learning_rat (line 2): unknown key; did you mean 'learning_rate'?"),
    ("limits: {zzz: 1}", "limits.zzz (line 2): unknown key; known are forced_answer, seconds"),
    ("training:\n  steps: 1\n  seed: 1\n  steps: 2", "line 5: the key 'steps' stands on line 3 already"),
    ("[a]: 1", "a key must be a word"),
    # Models
    ("models: {a: {}}", "models.a.base_url (line 2): is missing; add base_url"),
    (
        "models: {a: {provider: openai}}",
        "models.a.provider (line 2): 'openai' by name comes with a later release; for now",
    ),
    ("models: {a: {provider: recordd}}", "models.a.provider (line 2): no provider 'recordd'; did you mean 'recorded'?"),
    (
        "models: {a: {provider: [openai]}}",
        "models.a.provider (line 2): no provider \"['openai']\"; known are openai-comp",
    ),
    ("tools: {t: {kind: [code]}}", "tools.t.kind (line 2): no tool of the kind \"['code']\"; did you mean 'code'?"),
    ("models: {a: {provider: simulated}}", "models.a.price (line 2): is missing; add price"),
    ("models: {a: {provider: recorded, path: x.jsonl}}", "models.a.path (line 2): no such file: "),
    ("models: {a: {base_url: localhost}}", "models.a.base_url (line 2): must be an address such as http://"),
    ("models: {a: {base_url: 'http://h:x/'}}", "models.a.base_url (line 2): must be an address such as http://"),
    (
        "models: {s: {provider: simulated, price: {free: true}, skills: {easy: 1.5}}}",
        "models.s.skills.easy (line 2): must be at most 1, got '1.5'",
    ),
    ("models: {a: {base_url: 'http://h', price: {input: 1}}}", "models.a.price.output (line 2): has no 'output'"),
    ("models: {orchestrator: {base_url: 'http://h'}}", "models.orchestrator (line 2): 'orchestrator' is the orch"),
    # Tools
    ("tools: {t: {}}", "tools.t.kind (line 2): is missing; one of model, code, search"),
    ("tools: {t: {kind: tavily}}", "tools.t.kind (line 2): 'tavily' comes with a later release"),
    ("tools: {t: {kind: cod}}", "tools.t.kind (line 2): no tool of the kind 'cod'; did you mean 'code'?"),
    ("tools: {code: {kind: code, code: 1}}", "tools.code.code (line 2): unknown key"),
    ("tools: {code: {kind: code, seconds: -1}}", "tools.code.seconds (line 2): must be above 0, got '-1'"),
    ("tools: {t: {kind: search, folder: gone}}", "tools.t.folder (line 2): no such folder: "),
    ("tools: {t: {kind: search, folder: ''}}", "tools.t.folder (line 2): the path is empty"),
    ("tools: {a b: {kind: code}}", "tools.a b (line 2): a tool's name has 1 to 64 letters"),
    ("tools: {t: {kind: model, model: x}}", "tools.t.model (line 2): no model 'x' under models; none is defined"),
    (
        "models: {gpt-5: {base_url: 'http://h'}}\ntools: {t: {kind: model, model: gpt5}}",
        "tools.t.model (line 3): no model 'gpt5' under models; did you mean 'gpt-5'?",
    ),
    # References and files
    ("judge: {kind: model}", "judge.model (line 2): is missing; name a model under models"),
    ("judge: {model: x}", "judge.model (line 2): no model 'x' under models"),
    ("preference: {tools: {web: 1}}", "preference.tools.web (line 2): no tool 'web' under tools"),
    ("tasks: {test: t.jsonl}", "tasks.test (line 2): no such file: "),
    ("prices: {override: p.yaml}", "create it with lines such as `gpt-5: {input: 1.25, output: 10}`"),
    # YAML
    ("training: {", "not valid YAML: line "),
    ("a: b: c", "not valid YAML: line 2, column 5"),
    ("--- \na: 1", "not valid YAML"),
]


class TestFaults:
    @pytest.mark.parametrize(("text", "message"), FAULTS)
    def test_a_fault_names_file_path_and_fix(self, write: Write, text: str, message: str) -> None:
        found = fault(write(f"{ORCHESTRATOR}{text}\n"))
        assert found.startswith("orchestra.yaml: ")
        assert message in found
        assert "\n" not in found, "one fault, one line"

    def test_all_faults_are_told_at_once(self, write: Write) -> None:
        found = fault(write("limits: {turns: 0}\ntraining: {steps: x}\n")).splitlines()
        assert found == [
            "orchestra.yaml: orchestrator: is missing; add orchestrator",
            "orchestra.yaml: limits.turns (line 1): must be at least 1, got '0'",
            "orchestra.yaml: training.steps (line 2): must be a whole number, got 'x'",
        ]

    def test_a_flood_of_faults_is_cut(self, write: Write) -> None:
        weights = ", ".join(f"t{index}: 2" for index in range(40))
        found = fault(write(f"{ORCHESTRATOR}preference: {{tools: {{{weights}}}}}\n")).splitlines()
        assert len(found) == 13
        assert found[-1] == "orchestra.yaml: and 28 more"

    def test_a_long_value_is_cut(self, write: Write) -> None:
        assert len(fault(write(f"{ORCHESTRATOR}training: {{steps: {'x' * 5000}}}\n"))) < 200

    def test_braces_of_the_user_are_only_text(self, write: Write) -> None:
        assert "'{0}'" in fault(write(ORCHESTRATOR + "tools: {t: {kind: '{0}'}}\n"))

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("tools: {t: {kind: code, memory_mb: 32}}", "tools.t.memory_mb (line 2): must be at least 64"),
            ("tools: {t: {kind: search, folder: ., results: 50}}", "tools.t.results (line 2): must be at most 20"),
            ("models: {m: {base_url: 'http://x', seconds: 0}}", "models.m.seconds (line 2): must be above 0"),
            ("models: {m: {base_url: 'http://x', output_tokens: 0}}", "models.m.output_tokens (line 2): must be at"),
        ],
    )
    def test_bounds_are_those_of_the_parts(self, write: Write, text: str, words: str) -> None:
        assert words in fault(write(f"{ORCHESTRATOR}{text}\n"))

    def test_a_missing_empty_or_foreign_file(self, write: Write, tmp_path: Path) -> None:
        assert "orchestra.yaml: no such settings file; correct the path, or create it" in fault(
            tmp_path / "orchestra.yaml"
        )
        assert "the file is empty. It is YAML and begins with an orchestrator" in fault(write("# nothing\n"))
        assert "the file (line 1): must be a section of keys" in fault(write("- a\n"))
        (tmp_path / "orchestra.yaml").write_bytes(b"a: \xff\xfe")
        assert "not UTF-8 text (byte 3)" in fault(tmp_path / "orchestra.yaml")
        (tmp_path / "orchestra.yaml").write_bytes(b"#" * (5 * 1024 * 1024))
        assert "larger than 4 MiB" in fault(tmp_path / "orchestra.yaml")


class TestOrchestrator:
    @pytest.mark.parametrize("model", ["./gone", "/gone/model", "runs/demo/model", "gone/"])
    def test_a_missing_model_folder_is_named(self, write: Write, model: str) -> None:
        found = fault(write(f"orchestrator: {{model: {model}}}\n"))
        assert "orchestrator.model (line 1): no such model folder: " in found
        assert "train one" in found

    def test_a_missing_folder_next_to_others_is_no_published_name(self, write: Write, tmp_path: Path) -> None:
        path = write("orchestrator: {model: runs/model}\n")
        assert load_settings(path).orchestrator.model == "runs/model"
        (tmp_path / "runs").mkdir()
        assert "no such model folder" in fault(path)

    def test_names_with_a_server_are_left_alone(self, write: Write) -> None:
        text = "orchestrator: {model: ./a/b/c, base_url: 'http://h/v1?api-version=1'}\n"
        assert load_settings(write(text)).orchestrator.model == "./a/b/c"

    def test_files_are_looked_for_only_when_asked(self, write: Write, tmp_path: Path) -> None:
        path = write("orchestrator: {model: ./gone}\ntasks: {test: t.jsonl}\n")
        settings = load_settings(path, check_files=False)
        assert settings.orchestrator.model == str(tmp_path / "gone")
        assert settings.tasks.test == tmp_path / "t.jsonl"

    def test_what_comes_later_is_refused(self, write: Write) -> None:
        found = fault(write("orchestrator: {model: m, base_url: 'http://h', protocol: nemotron}\n"))
        assert "orchestrator.protocol (line 1): 'nemotron' comes with a later release; use conversation" in found
        found = fault(write("orchestrator: {model: m, base_url: 'http://h', constrained: true}\n"))
        assert "orchestrator.constrained (line 1): works with a model in a folder only" in found


class TestSecrets:
    @pytest.mark.parametrize(
        "text",
        [
            "{base_url: 'http://h', api_key: KEY}",
            "{base_url: 'http://h', api_key: hunter2hunter2}",
            "{base_url: 'http://h', OPENAI_API_KEY: hunter2hunter2}",
            "{base_url: 'http://h', api_key_env: KEY}",
            "{base_url: 'http://h', api_key_env: hunter2hunter2}",
            "{base_url: 'http://h', api_key_env: [hunter2hunter2]}",
            "{base_url: 'http://user:hunter2hunter2@h/v1'}",
            "{base_url: 'http://h/v1?api-key=hunter2hunter2'}",
            "{base_url: 'http://h', description: 'use KEY'}",
        ],
    )
    def test_a_secret_in_the_file_is_refused_and_not_repeated(self, write: Write, text: str) -> None:
        found = fault(
            write(f"{ORCHESTRATOR}models:\n  a: {text.replace('KEY', KEY) if '_KEY' not in text else text}\n")
        )
        assert "models.a." in found
        assert KEY not in found
        assert "hunter2" not in found
        assert "variable" in found or "api_key_env (line 3): must be text" in found

    @pytest.mark.parametrize(
        "key",
        [KEY, "sk-" + "0af3" * 8, "gsk_" + "aB3" * 10, "hf_" + "aB3" * 11, "AKIA" + "A1" * 8, "tvly-dev-" + "a1" * 9],
    )
    def test_keys_of_known_providers_are_refused_anywhere(self, write: Write, key: str) -> None:
        found = fault(write(f"{ORCHESTRATOR}preference: 'with {key}'\n"))
        assert "preference (line 2): looks like a secret key" in found
        assert key not in found

    @pytest.mark.parametrize(
        "text", ["sk-learn-notes-and-examples", "hf_my_training_corpus_of_2026_v2", "desk-" + "a1" * 20]
    )
    def test_ordinary_names_are_no_secrets(self, write: Write, text: str) -> None:
        assert load_settings(write(f"{ORCHESTRATOR}preference: {text}\n")).preference.text == text

    def test_the_fix_is_told(self, write: Write) -> None:
        found = fault(write(f"{ORCHESTRATOR}models: {{a: {{base_url: 'http://h', api_key: x}}}}\n"))
        assert "api_key_env: NAME_OF_THE_VARIABLE" in found


def test_frozen_sections_say_nothing_of_their_input_in_errors() -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        ChatModelSettings.model_validate({"base_url": f"http://{KEY}@h"})
    assert KEY not in str(caught.value)


def test_unknown_python_values_are_typed_too() -> None:
    values: dict[str, Any] = {"orchestrator": {"model": "m", "base_url": "http://h"}, "limits": {"usd": 0.1}}
    assert Settings.model_validate(values).limits.usd == Decimal("0.1")
