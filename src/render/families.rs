//! The markers of known templates.
//!
//! A template belongs to a family if its source has the family's words, and if a small conversation that it renders has
//! exactly the turns that the markers say.

use super::conversation::{Conversation, message};
use super::json::Json;
use super::turns::Markers;

/// The markers of one family.
struct Family {
    /// What the source has.
    words: &'static [&'static str],
    begins: &'static [&'static str],
    /// What ends a turn and is learned from. `EOS` stands for the tokenizer's token of that name.
    ends: &'static [&'static str],
    /// What stands behind a turn that nothing ends.
    stops: &'static [&'static str],
    /// What interrupts a turn, such as a tool's result, and where it goes on.
    pauses: &'static [(&'static str, &'static str)],
    is_joined: bool,
    is_split: bool,
}

const EOS: &str = "{eos}";

/// A family whose markers are no more than the beginnings and ends of turns.
const fn family(
    words: &'static [&'static str],
    begins: &'static [&'static str],
    ends: &'static [&'static str],
) -> Family {
    Family { words, begins, ends, stops: &[], pauses: &[], is_joined: false, is_split: false }
}

/// Of several that fit a template, the first one counts.
const FAMILIES: &[Family] = &[
    // OpenAI's harmony: a message may have several parts, and the model writes the header of all but the first.
    Family {
        is_joined: true,
        is_split: true,
        ..family(
            &["<|start|>", "<|message|>", "<|channel|>"],
            &["<|start|>assistant"],
            &["<|end|>", "<|return|>", "<|call|>"],
        )
    },
    Family {
        is_joined: true,
        is_split: true,
        ..family(&["<|start|>", "<|message|>", "<|eot|>"], &["<|start|>assistant"], &["<|eot|>", "<|eom|>"])
    },
    // ChatML, and its relatives Phi 4 and Kimi.
    family(&["<|im_start|>", "<|im_end|>"], &["<|im_start|>assistant\n"], &["<|im_end|>"]),
    family(
        &["<|im_start|>", "<|im_sep|>", "<|im_end|>"],
        &["<|im_start|>assistant<|im_sep|>"],
        &["<|im_end|>"],
    ),
    family(
        &["<|im_assistant|>", "<|im_middle|>", "<|im_end|>"],
        &["<|im_assistant|>assistant<|im_middle|>"],
        &["<|im_end|>"],
    ),
    // Llama 3 and 4.
    family(
        &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        &["<|start_header_id|>assistant<|end_header_id|>\n\n"],
        &["<|eot_id|>", "<|eom_id|>"],
    ),
    family(
        &["<|header_start|>", "<|header_end|>", "<|eot|>"],
        &["<|header_start|>assistant<|header_end|>\n\n"],
        &["<|eot|>", "<|eom|>"],
    ),
    // Gemma, to 3 and from 4. In the newer a tool's result stands within the model's turn.
    family(&["<start_of_turn>", "<end_of_turn>"], &["<start_of_turn>model\n"], &["<end_of_turn>"]),
    Family {
        pauses: &[("<|tool_response>", "<tool_response|>")],
        is_split: true,
        ..family(&["<|turn>", "<turn|>"], &["<|turn>model\n"], &["<turn|>"])
    },
    // Phi 3.
    family(&["<|assistant|>", "<|end|>"], &["<|assistant|>\n"], &["<|end|>"]),
    // GLM: the model ends its turn with the token of whoever is next.
    Family {
        stops: &["<|system|>"],
        ..family(
            &["[gMASK]", "<|assistant|>", "<|user|>"],
            &["<|assistant|>"],
            &["<|user|>", "<|observation|>"],
        )
    },
    // Zephyr, OLMo, Falcon.
    family(&["<|assistant|>", "<|user|>"], &["<|assistant|>\n"], &[EOS]),
    family(
        &["<|start_of_role|>", "<|end_of_role|>"],
        &["<|start_of_role|>assistant<|end_of_role|>"],
        &["<|end_of_text|>"],
    ),
    // DeepSeek: the model goes on behind the results of tools, without a marker of its own.
    Family {
        stops: &["<\u{ff5c}User\u{ff5c}>", "<\u{ff5c}tool\u{2581}outputs\u{2581}begin\u{ff5c}>"],
        ..family(
            &["<\u{ff5c}Assistant\u{ff5c}>", "<\u{ff5c}tool\u{2581}outputs\u{2581}end\u{ff5c}>"],
            &["<\u{ff5c}Assistant\u{ff5c}>", "<\u{ff5c}tool\u{2581}outputs\u{2581}end\u{ff5c}>"],
            &["<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>"],
        )
    },
    Family {
        stops: &["<\u{ff5c}User\u{ff5c}>", "<\u{ff5c}tool\u{2581}output\u{2581}begin\u{ff5c}>"],
        ..family(
            &["<\u{ff5c}Assistant\u{ff5c}>", "<\u{ff5c}tool\u{2581}output\u{2581}end\u{ff5c}>"],
            &["<\u{ff5c}Assistant\u{ff5c}>", "<\u{ff5c}tool\u{2581}output\u{2581}end\u{ff5c}>"],
            &["<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>"],
        )
    },
    Family {
        stops: &["<\u{ff5c}User\u{ff5c}>"],
        ..family(
            &["<\u{ff5c}Assistant\u{ff5c}>"],
            &["<\u{ff5c}Assistant\u{ff5c}>"],
            &["<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>"],
        )
    },
    // Mistral, and Llama 2.
    Family {
        stops: &["[INST]", "[TOOL_RESULTS]"],
        ..family(&["[/INST]", "[/TOOL_RESULTS]"], &["[/INST]", "[/TOOL_RESULTS]"], &[EOS])
    },
    Family { stops: &["[INST]"], ..family(&["[/INST]"], &["[/INST]"], &[EOS]) },
    // Cohere.
    family(
        &["<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"],
        &["<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"],
        &["<|END_OF_TURN_TOKEN|>"],
    ),
    // SmolVLM and Idefics.
    family(&["<end_of_utterance>"], &["Assistant:"], &["<end_of_utterance>"]),
    // EXAONE.
    family(&["[|assistant|]", "[|endofturn|]"], &["[|assistant|]"], &["[|endofturn|]"]),
];

impl Family {
    /// Its markers, if the tokenizer has what they need.
    fn markers(&self, eos: Option<&str>) -> Option<Markers> {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let ends = self.ends.iter().map(|end| if *end == EOS { eos } else { Some(*end) });
        let ends: Vec<String> = ends.map(|end| end.map(str::to_owned)).collect::<Option<_>>()?;
        let mut markers = Markers::new(&texts(self.begins), &ends, &texts(self.stops), self.pauses);
        (markers.is_joined, markers.is_split) = (self.is_joined, self.is_split);
        Some(markers)
    }
}

/// The markers of the family that a template belongs to. `render` gives the text of a conversation; `eos` is the token
/// that ends texts.
pub(super) fn recognize(
    source: &str,
    eos: Option<&str>,
    render: &impl Fn(&Conversation) -> Option<String>,
) -> Option<Markers> {
    let fitting = FAMILIES.iter().filter(|family| family.words.iter().all(|word| source.contains(word)));
    fitting.filter_map(|family| family.markers(eos)).find(|markers| holds(markers, render))
}

/// Words that stand in no template.
const WORDS: [&str; 4] = ["qokzuv one", "wyxejip two", "zuvqoky three", "jipwyxe four"];

/// Whether the markers give the turns of a small conversation, with the right words in each; and if the template takes
/// tools, whether nothing of a tool's is in a turn.
fn holds(markers: &Markers, render: &impl Fn(&Conversation) -> Option<String>) -> bool {
    let roles = ["user", "assistant", "user", "assistant"];
    let conversation = |in_parts: bool| {
        let messages = roles.iter().zip(WORDS).map(|(role, words)| message(role, content(words, in_parts)));
        Conversation::of_messages(messages.collect())
    };
    let Some(text) = render(&conversation(false))
        .filter(|text| WORDS.iter().all(|word| text.contains(word)))
        .or_else(|| render(&conversation(true)))
    else {
        return false;
    };
    let Ok(turns) = markers.turns(&text, &text) else { return false };
    let has =
        |turn: usize, word: usize| text.match_indices(WORDS[word]).any(|(at, _)| turns[turn].contains(at));
    let expected = |word: usize| (word == 1, word == 3);
    let is_right = turns.len() == 2 && (0..4).all(|word| (has(0, word), has(1, word)) == expected(word));
    is_right && !has_tools_within(markers, render)
}

/// Whether a tool's words are in a turn.
pub(super) fn has_tools_within(markers: &Markers, render: &impl Fn(&Conversation) -> Option<String>) -> bool {
    let call =
        r#"[{"type": "function", "id": "abcdefghi", "function": {"name": "f", "arguments": {"a": "b"}}}]"#;
    let Ok(calls) = Json::parse(call) else { return false };
    let string = |text: &str| Json::String(text.to_owned());
    let with = |mut message: Json, more: Vec<(&'static str, Json)>| {
        if let Json::Object(entries) = &mut message {
            entries.extend(more.into_iter().map(|(name, value)| (name.into(), value)));
        }
        message
    };
    let conversation = Conversation::of_messages(vec![
        message("user", string(WORDS[0])),
        with(message("assistant", string("")), vec![("tool_calls", calls)]),
        with(
            message("tool", string(WORDS[2])),
            vec![("name", string("f")), ("tool_call_id", string("abcdefghi"))],
        ),
        message("assistant", string(WORDS[3])),
    ]);
    let Some(text) = render(&conversation) else { return false };
    let Ok(turns) = markers.turns(&text, &text) else { return true };
    let tools = text.match_indices(WORDS[2]).map(|(at, _)| at);
    tools.into_iter().any(|at| turns.iter().any(|turn| turn.contains(at)))
}

fn content(words: &str, in_parts: bool) -> Json {
    let text = Json::String(words.to_owned());
    match in_parts {
        false => text,
        true => Json::List(vec![Json::Object(vec![
            ("type".into(), Json::String("text".to_owned())),
            ("text".into(), text),
        ])]),
    }
}
