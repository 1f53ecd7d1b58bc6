"""Chat templates of families of models from 2023 to 2026, and what is known of each by hand.

The templates in ``chat_templates/`` are stand-ins: written anew from the structure of the published ones, with their
tokens, line breaks, thoughts and channels, and with shorter words about tools. A row says what a template writes around
the message ``hello`` of a user and the answer ``look``, and in which prompts it can be used:

    conversation   each prompt extends the last one and its answer
    keep_history   so it does with ``keep_history``: the template itself would drop the thoughts of earlier answers
    window         only prompts that are built anew at each turn
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

CONVERSATION, KEEP_HISTORY, WINDOW = "conversation", "keep_history", "window"

Thought = tuple[str, str]
"""What stands before and after a thought in an answer, without white space at either end."""

TAGS: Final[Thought] = ("<think>", "</think>")


@dataclass(frozen=True)
class ChatFamily:
    """One template, with its arguments.

    Attributes:
        family: name of the family.
        model: a model of it.
        end: what ends an answer.
        tail: what stands between the user's text and the answer in a prompt.
        answer: what stands after the user's text where an answer without a thought follows and nothing else.
        mode: prompts in which it can be used.
        tools: the same where it describes tools; "" if it describes none.
        system: the same with a system message; "" where that changes nothing.
        bos: beginning of a text.
        eos: end of a text.
        special: other special tokens.
        added: tokens that are not special and have names.
        ends: what the generation configuration ends an answer with, beside `eos`.
        options: arguments of the template.
        template: name of its file.
        thought: marks of a thought; None where no answer has one.
        opened: whether the prompt opens the thought.
        form: format in which it teaches calls, where we have that, or a stand-in.
        calls: whether calls stand in fields of a message: results need them or name them, or thoughts stay only there.
        compared: whether the published template, as trl 1.16 has it, was seen to give what this row says: tail, answer,
            mode, tools unless they are among `_UNTRIED`, system, and form where calls stand in fields.
    """

    family: str
    model: str
    end: str
    tail: str
    answer: str
    mode: str = CONVERSATION
    tools: str = ""
    system: str = ""
    bos: str = ""
    eos: str = "<|endoftext|>"
    special: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    template: str = ""
    thought: Thought | None = None
    opened: bool = False
    form: str = "hermes"
    calls: bool = False
    compared: bool = False


_IM = ("<|im_start|>", "<|im_end|>")
_QWEN = (*TAGS, "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_IM_TAIL = "<|im_end|>\n<|im_start|>assistant\n"
_EMPTY = "<think>\n\n</think>\n\n"
_CHATML = ChatFamily(
    "ChatML", "NousResearch/Hermes-2-Pro-Mistral-7B", "<|im_end|>", _IM_TAIL, f"{_IM_TAIL}look<|im_end|>\n",
    eos="<|im_end|>", special=(*_IM, "<|endoftext|>"),
)  # fmt: skip
_QWEN_3 = replace(
    _CHATML, family="Qwen 3", model="Qwen/Qwen3-8B", answer=f"{_IM_TAIL}{_EMPTY}look<|im_end|>\n", mode=KEEP_HISTORY,
    tools=CONVERSATION, added=_QWEN, ends=("<|endoftext|>",), thought=TAGS,
)  # fmt: skip
_QWEN_35 = replace(
    _QWEN_3, family="Qwen 3.5, 4B and larger", model="Qwen/Qwen3.5-9B", tail=f"{_IM_TAIL}<think>\n", opened=True,
    form="qwen-xml",
)  # fmt: skip
_BAR, _LOW = "\uff5c", "\u2581"  # which DeepSeek writes in the names of its tokens
_ASSISTANT, _SENTENCE = f"<{_BAR}Assistant{_BAR}>", f"<{_BAR}end{_LOW}of{_LOW}sentence{_BAR}>"
_DEEPSEEK = ChatFamily(
    "DeepSeek V3", "deepseek-ai/DeepSeek-V3-0324", _SENTENCE, _ASSISTANT, f"{_ASSISTANT}look{_SENTENCE}",
    bos=f"<{_BAR}begin{_LOW}of{_LOW}sentence{_BAR}>", eos=_SENTENCE, special=(f"<{_BAR}User{_BAR}>", _ASSISTANT),
)  # fmt: skip
_GLM_ROLES = ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
_GLM = ChatFamily(
    "GLM 4", "zai-org/GLM-4-9B-0414", "<|user|>", "<|assistant|>", "<|assistant|>\nlook", tools=CONVERSATION,
    special=_GLM_ROLES, ends=("<|user|>", "<|observation|>"),
)  # fmt: skip
_GLM_45 = replace(
    _GLM, family="GLM 4.5, GLM 4.6", model="zai-org/GLM-4.6", answer="<|assistant|>\n<think></think>\nlook",
    mode=KEEP_HISTORY, added=_QWEN, thought=TAGS, form="glm",
)  # fmt: skip
_GLM_47 = replace(
    _GLM_45, family="GLM 4.7", model="zai-org/GLM-4.7", tail="<|assistant|><think>", answer="<|assistant|></think>look",
    opened=True, form="glm-4.7",
)  # fmt: skip
_GEMMA_TAIL = "<end_of_turn>\n<start_of_turn>model\n"
_GEMMA = ChatFamily(
    "Gemma 2", "google/gemma-2-9b-it", "<end_of_turn>", _GEMMA_TAIL, f"{_GEMMA_TAIL}look<end_of_turn>\n",
    bos="<bos>", eos="<eos>", special=("<start_of_turn>", "<end_of_turn>"), ends=("<end_of_turn>",),
)  # fmt: skip
_GEMMA_4 = ChatFamily(
    "Gemma 4", "google/gemma-4-E4B-it", "<turn|>", "<turn|>\n<|turn>model\n", "<turn|>\n<|turn>model\nlook<turn|>\n",
    mode=KEEP_HISTORY, bos="<bos>", eos="<eos>", ends=("<turn|>",),
    special=("<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>"),
    thought=("<|channel>thought", "<channel|>"),
)  # fmt: skip
_LLAMA_TAIL = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
_LLAMA = ChatFamily(
    "Llama 3", "meta-llama/Meta-Llama-3-8B-Instruct", "<|eot_id|>", _LLAMA_TAIL, f"{_LLAMA_TAIL}look<|eot_id|>",
    bos="<|begin_of_text|>", eos="<|eot_id|>", special=("<|start_header_id|>", "<|end_header_id|>", "<|end_of_text|>"),
    ends=("<|end_of_text|>",), form="llama",
)  # fmt: skip
_MISTRAL = ChatFamily(
    "Mistral v3", "mistralai/Mistral-7B-Instruct-v0.3", "</s>", "[/INST]", "[/INST] look</s>", tools=CONVERSATION,
    system=WINDOW, bos="<s>", eos="</s>", special=("[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"), form="mistral",
)  # fmt: skip
_PHI = ChatFamily(
    "Phi 3", "microsoft/Phi-3.5-mini-instruct", "<|end|>", "<|end|>\n<|assistant|>\n",
    "<|end|>\n<|assistant|>\nlook<|end|>\n<|endoftext|>", ends=("<|end|>",),
    special=("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
)  # fmt: skip
_MINIMAX_TAIL = "[e~[\n]~b]ai\n"
_KIMI_TAIL = "<|im_end|><|im_assistant|>assistant<|im_middle|>"
_KIMI = ChatFamily(
    "Kimi K2", "moonshotai/Kimi-K2-Instruct", "<|im_end|>", _KIMI_TAIL, f"{_KIMI_TAIL}look<|im_end|>",
    tools=CONVERSATION, calls=True, eos="[EOS]", ends=("<|im_end|>",),
    special=("<|im_end|>", "<|im_user|>", "<|im_assistant|>",
    "<|im_system|>", "<|im_middle|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
    "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"), form="kimi",
)  # fmt: skip
_COMMAND_TAIL = "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
_COMMAND = ChatFamily(
    "Command R", "CohereLabs/c4ai-command-r-08-2024", "<|END_OF_TURN_TOKEN|>", _COMMAND_TAIL,
    f"{_COMMAND_TAIL}look<|END_OF_TURN_TOKEN|>", bos="<BOS_TOKEN>", eos="<|END_OF_TURN_TOKEN|>",
    special=("<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>"),
)  # fmt: skip
_GRANITE_TAIL = "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"

FAMILIES: Final[dict[str, ChatFamily]] = {
    "chatml": _CHATML,
    "hermes3": replace(
        _CHATML, family="Hermes 3", model="NousResearch/Hermes-3-Llama-3.1-8B", tools=WINDOW,
        bos="<|begin_of_text|>", added=_QWEN[2:],
    ),
    "yi": replace(_CHATML, family="Yi 1.5", model="01-ai/Yi-1.5-9B-Chat"),
    "internlm": replace(_CHATML, family="InternLM 2.5, 3", model="internlm/internlm3-8b-instruct", bos="<s>"),
    "smollm2": replace(_CHATML, family="SmolLM 2", model="HuggingFaceTB/SmolLM2-1.7B-Instruct"),
    "smollm3": replace(
        _CHATML, family="SmolLM 3", model="HuggingFaceTB/SmolLM3-3B", tools=CONVERSATION, added=_QWEN, thought=TAGS
    ),
    "smollm3_off": replace(
        _CHATML, family="SmolLM 3", model="HuggingFaceTB/SmolLM3-3B", template="smollm3",
        tail=f"{_IM_TAIL}<think>\n\n</think>\n", answer=f"{_IM_TAIL}<think>\n\n</think>\nlook<|im_end|>\n",
        tools=CONVERSATION, added=_QWEN, options={"enable_thinking": False},
    ),
    "qwen25": replace(
        _CHATML, family="Qwen 2.5", model="Qwen/Qwen2.5-7B-Instruct", tools=CONVERSATION, added=_QWEN[2:4],
        ends=("<|endoftext|>",),
    ),
    "qwen3": _QWEN_3,
    "qwen3_off": replace(
        _QWEN_3, family="Qwen 3", template="qwen3", tail=f"{_IM_TAIL}{_EMPTY}", tools=KEEP_HISTORY,
        options={"enable_thinking": False}, thought=None,
    ),
    "qwen3_thinking": replace(
        _QWEN_3, family="Qwen 3 2507, thinking", model="Qwen/Qwen3-4B-Thinking-2507", tail=f"{_IM_TAIL}<think>\n",
        opened=True,
    ),
    "qwen3_training": replace(_QWEN_3, family="Qwen 3 with a template for training", mode=CONVERSATION),
    "qwen35": _QWEN_35,
    "qwen35_small": replace(
        _QWEN_35, family="Qwen 3.5, 2B and smaller", model="Qwen/Qwen3.5-2B", tail=f"{_IM_TAIL}{_EMPTY}", thought=None,
        opened=False,
    ),
    "qwen36": replace(_QWEN_35, family="Qwen 3.6", model="Qwen/Qwen3.6-27B"),
    "qwen36_preserve": replace(
        _QWEN_35, family="Qwen 3.6", model="Qwen/Qwen3.6-27B", template="qwen36", mode=CONVERSATION,
        options={"preserve_thinking": True},
    ),
    "qwq": replace(
        _QWEN_35, family="QwQ", model="Qwen/QwQ-32B", answer=f"{_IM_TAIL}look<|im_end|>\n", tools=KEEP_HISTORY,
        form="hermes",
    ),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_r1": replace(
        _DEEPSEEK, family="DeepSeek R1", model="deepseek-ai/DeepSeek-R1", tail=f"{_ASSISTANT}<think>\n",
        mode=KEEP_HISTORY, added=TAGS, thought=TAGS, opened=True,
    ),
    "deepseek_v31": replace(
        _DEEPSEEK, family="DeepSeek V3.1", model="deepseek-ai/DeepSeek-V3.1", tail=f"{_ASSISTANT}</think>",
        answer=f"{_ASSISTANT}</think>look{_SENTENCE}", added=TAGS,
    ),
    "deepseek_v31_thinking": replace(
        _DEEPSEEK, family="DeepSeek V3.1", model="deepseek-ai/DeepSeek-V3.1", template="deepseek_v31",
        tail=f"{_ASSISTANT}<think>", answer=f"{_ASSISTANT}</think>look{_SENTENCE}", mode=KEEP_HISTORY, added=TAGS,
        options={"thinking": True}, thought=TAGS, opened=True,
    ),
    "glm4": _GLM,
    "glm45": _GLM_45,
    "glm47": _GLM_47,
    "glm47_keeping": replace(_GLM_47, template="glm47", mode=CONVERSATION, options={"clear_thinking": False}),
    "gptoss": ChatFamily(
        "gpt-oss", "openai/gpt-oss-20b", "<|return|>", "<|end|><|start|>assistant",
        "<|end|><|start|>assistant<|channel|>final<|message|>look<|return|>", mode=KEEP_HISTORY, tools=CONVERSATION,
        bos="<|startoftext|>", eos="<|return|>", special=("<|start|>", "<|end|>", "<|message|>", "<|channel|>",
        "<|constrain|>", "<|call|>", "<|endoftext|>"), ends=("<|call|>", "<|endoftext|>"),
        thought=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        form="harmony", calls=True,
    ),
    "gemma2": _GEMMA,
    "gemma3": replace(_GEMMA, family="Gemma 3", model="google/gemma-3-4b-it"),
    "gemma4": _GEMMA_4,
    "gemma4_large": replace(
        _GEMMA_4, family="Gemma 4, 31B", model="google/gemma-4-31B-it", thought=None,
        tail="<turn|>\n<|turn>model\n<|channel>thought\n<channel|>",
    ),
    "gemma4_large_thinking": replace(
        _GEMMA_4, family="Gemma 4, 31B", model="google/gemma-4-31B-it", template="gemma4_large",
        options={"enable_thinking": True},
    ),
    "llama2": ChatFamily(
        "Llama 2", "meta-llama/Llama-2-7b-chat-hf", "</s>", " [/INST]", " [/INST] look </s>", bos="<s>", eos="</s>"
    ),
    "llama3": _LLAMA,
    "llama31": replace(
        _LLAMA, family="Llama 3.1, 3.2, 3.3", model="meta-llama/Llama-3.1-8B-Instruct", tools=CONVERSATION
    ),
    "llama4": replace(
        _LLAMA, family="Llama 4", model="meta-llama/Llama-4-Scout-17B-16E-Instruct", tools=CONVERSATION, end="<|eot|>",
        tail="<|eot|><|header_start|>assistant<|header_end|>\n\n", ends=("<|end_of_text|>",), eos="<|eot|>",
        answer="<|eot|><|header_start|>assistant<|header_end|>\n\nlook<|eot|>",
        special=("<|header_start|>", "<|header_end|>", "<|end_of_text|>"),
    ),
    "mistral1": replace(
        _MISTRAL, family="Mistral v1", model="mistralai/Mistral-7B-Instruct-v0.2", tail=" [/INST]", tools="", system="",
        answer=" [/INST] look</s>", special=(),
    ),
    "mistral3": _MISTRAL,
    "mistral7": replace(
        _MISTRAL, family="Mistral v7", model="mistralai/Mistral-Small-3.2-24B-Instruct-2506", answer="[/INST]look</s>",
        system="", special=(*_MISTRAL.special, "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    ),
    "magistral": replace(
        _MISTRAL, family="Magistral", model="mistralai/Magistral-Small-2507", answer="[/INST]look</s>", tools="",
        system="", special=("[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[THINK]", "[/THINK]"),
        thought=("[THINK]", "[/THINK]"),
    ),
    "phi3": _PHI,
    "phi4": replace(
        _PHI, family="Phi 4", model="microsoft/phi-4", end="<|im_end|>", eos="<|im_end|>", ends=(),
        tail="<|im_end|><|im_start|>assistant<|im_sep|>", special=(*_IM, "<|im_sep|>"),
        answer="<|im_end|><|im_start|>assistant<|im_sep|>look<|im_end|>",
    ),
    "phi4_mini": replace(
        _PHI, family="Phi 4 mini", model="microsoft/Phi-4-mini-instruct", tail="<|end|><|assistant|>",
        answer="<|end|><|assistant|>look<|end|><|endoftext|>",
    ),
    "minimax_m2": ChatFamily(
        "MiniMax M2", "MiniMaxAI/MiniMax-M2", "[e~[", f"{_MINIMAX_TAIL}<think>\n", f"{_MINIMAX_TAIL}look[e~[\n",
        mode=KEEP_HISTORY, tools=CONVERSATION, eos="[e~[", special=("]~!b[", "]~b]"), added=TAGS, thought=TAGS,
        opened=True, calls=True, form="minimax",
    ),
    "kimi_k2": _KIMI,
    "kimi_k2_thinking": replace(
        _KIMI, family="Kimi K2, thinking", model="moonshotai/Kimi-K2-Thinking",
        answer=f"{_KIMI_TAIL}<think></think>look<|im_end|>", mode=KEEP_HISTORY, added=TAGS, thought=TAGS,
    ),
    "nemotron3": replace(
        _QWEN_35, family="Nemotron 3 nano", model="nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        answer=f"{_IM_TAIL}<think></think>look<|im_end|>\n",
    ),
    "nemotron3_keeping": replace(
        _QWEN_35, family="Nemotron 3 nano", model="nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", template="nemotron3",
        answer=f"{_IM_TAIL}<think></think>look<|im_end|>\n", mode=CONVERSATION,
        options={"truncate_history_thinking": False},
    ),
    "granite": ChatFamily(
        "Granite 3", "ibm-granite/granite-3.3-8b-instruct", "<|end_of_text|>", _GRANITE_TAIL,
        f"{_GRANITE_TAIL}look<|end_of_text|>\n", tools=CONVERSATION, bos="<|end_of_text|>", eos="<|end_of_text|>",
        special=("<|start_of_role|>", "<|end_of_role|>"),
    ),
    "olmo2": ChatFamily(
        "OLMo 2", "allenai/OLMo-2-1124-7B-Instruct", "<|endoftext|>", "\n<|assistant|>\n",
        "\n<|assistant|>\nlook<|endoftext|>", bos="<|endoftext|>",
    ),
    "olmo3": replace(
        _CHATML, family="OLMo 3, thinking", model="allenai/Olmo-3-7B-Think", tail=f"{_IM_TAIL}<think>", thought=TAGS,
        answer=f"{_IM_TAIL}look<|endoftext|>", eos="<|endoftext|>", ends=("<|im_end|>",), opened=True,
        end="<|endoftext|>", special=_IM,
    ),
    "command_r": _COMMAND,
    "command_r7b": replace(
        _COMMAND, family="Command R7B", model="CohereLabs/c4ai-command-r7b-12-2024",
        answer=f"{_COMMAND_TAIL}<|START_RESPONSE|>look<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",
        special=(*_COMMAND.special, "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    "command_a": replace(
        _COMMAND, family="Command A", model="CohereLabs/c4ai-command-a-03-2025",
        tail=f"{_COMMAND_TAIL}<|START_RESPONSE|>",
        answer=f"{_COMMAND_TAIL}<|START_RESPONSE|>look<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",
        special=(*_COMMAND.special, "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    "exaone35": ChatFamily(
        "EXAONE 3.5", "LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct", "[|endofturn|]", "\n[|assistant|]",
        "\n[|assistant|]look[|endofturn|]\n", eos="[|endofturn|]", special=("[|system|]", "[|user|]", "[|assistant|]"),
    ),
    "exaone4": ChatFamily(
        "EXAONE 4", "LGAI-EXAONE/EXAONE-4.0-1.2B", "[|endofturn|]", f"[|endofturn|]\n[|assistant|]\n{_EMPTY}",
        f"[|endofturn|]\n[|assistant|]\n{_EMPTY}look[|endofturn|]\n", mode=KEEP_HISTORY, eos="[|endofturn|]",
        special=("[|system|]", "[|user|]", "[|assistant|]"), added=TAGS,
    ),
    "seed_oss": ChatFamily(
        "Seed-OSS", "ByteDance-Seed/Seed-OSS-36B-Instruct", "<seed:eos>", "<seed:eos><seed:bos>assistant\n",
        "<seed:eos><seed:bos>assistant\nlook<seed:eos>", tools=CONVERSATION, bos="<seed:bos>", eos="<seed:eos>",
        added=("<seed:think>", "</seed:think>"), thought=("<seed:think>", "</seed:think>"),
    ),
    "zephyr": ChatFamily(
        "Zephyr", "HuggingFaceH4/zephyr-7b-beta", "</s>", "</s>\n<|assistant|>\n", "</s>\n<|assistant|>\nlook</s>\n",
        eos="</s>", bos="<s>",
    ),
    "vicuna": ChatFamily(
        "Vicuna", "lmsys/vicuna-7b-v1.5", "</s>", " ASSISTANT:", " ASSISTANT: look</s>", bos="<s>", eos="</s>"
    ),
    "alpaca": ChatFamily(
        "Alpaca", "", "\n\n### Instruction:", "\n\n### Response:\n", "\n\n### Response:\nlook\n\n",
        bos="<s>", eos="</s>",
    ),
    "headings": ChatFamily(
        '"### user:"', "", "\n\n### user:", "\n\n### assistant:\n", "\n\n### assistant:\nlook\n\n",
        bos="<s>", eos="</s>",
    ),
    "plain_end": ChatFamily(
        'answers that end in " [END]"', "", " [END]", " [END]\nassistant: ", " [END]\nassistant: look [END]\n",
    ),
}  # fmt: skip
"""Name of a row -> what is known of it; a row without a file's name has a file of its own name."""

_COMPARED = (
    "command_a", "command_r", "deepseek_r1", "gemma2", "gemma3", "gemma4", "glm45", "gptoss", "llama3", "llama31",
    "nemotron3", "nemotron3_keeping", "phi3", "qwen25", "qwen3", "qwen3_off", "qwen3_training", "qwen35",
    "qwen35_small", "qwen36", "qwen36_preserve",
)  # fmt: skip
for _name in _COMPARED:
    FAMILIES[_name] = replace(FAMILIES[_name], compared=True)
_UNTRIED: Final = (
    "command_a", "command_r", "command_r7b", "exaone4", "gemma4", "gemma4_large", "gemma4_large_thinking",
)  # fmt: skip
"""Rows whose stand-in has no tools although the published template describes some."""

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "models.md"
_MARKS: Final = ("<!-- chat templates -->\n", "<!-- /chat templates -->")
_WORDS: Final = {CONVERSATION: "conversation", KEEP_HISTORY: "`keep_history`", WINDOW: "window", "": "describes none"}

_ENDS: Final = ("</think>", "<channel|>")


def table() -> str:
    """Return the table of chat templates in docs/models.md."""
    head = ["family", "such as", "prompts", "with tools", "an answer begins", "ends with", "compared"]
    lines = [head, ["---"] * len(head)]
    for name, family in FAMILIES.items():
        options = ", ".join(f"{key} = {str(value).lower()}" for key, value in family.options.items())
        begins = "in a thought" if family.opened else "after a thought" if family.tail.rstrip().endswith(_ENDS) else ""
        mode = _WORDS[family.mode]
        mode += f"; with a system message {_WORDS[family.system]}" if family.system else ""
        end = "a line that begins with " if family.end.startswith("\n") else ""
        lines.append(
            [
                family.family + (f", `{{{options}}}`" if options else ""),
                f"`{family.model}`" if family.model else "",
                mode,
                "not tried" if name in _UNTRIED else _WORDS[family.tools],
                begins,
                f"{end}<code>{html.escape(family.end.strip())}</code>",
                "yes" if family.compared else "",
            ]
        )
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def documented() -> str:
    """Return docs/models.md with the table as it should be."""
    begin, end = _MARKS
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(begin)
    return f"{before}{begin}{table()}{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    DOCUMENT.write_text(documented(), encoding="utf-8")
