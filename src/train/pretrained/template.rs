//! What a tokenizer of the Hugging Face libraries puts before a text: read, and written.
//!
//! It stands in the template of `tokenizer.json`: Llama's begins each text with an id, Qwen's does not. The template may
//! be one of several steps.

use std::borrow::Cow;

use serde_json::{Value, json};

/// The processors that put tokens around a text. The others change no ids.
const ADDING: [&str; 3] = ["TemplateProcessing", "BertProcessing", "RobertaProcessing"];

/// The steps of a processor, those of its steps included.
fn steps(processor: &Value) -> Vec<&Value> {
    match processor["processors"].as_array() {
        Some(several) => several.iter().flat_map(steps).collect(),
        None => vec![processor],
    }
}

/// The special id that the template of a `tokenizer.json` begins a text with.
pub(super) fn begin(tokenizer: &Value) -> Option<u32> {
    let steps = steps(&tokenizer["post_processor"]);
    let template = steps.into_iter().find(|step| step["type"] == "TemplateProcessing")?;
    let token = template["single"][0]["SpecialToken"]["id"].as_str()?;
    template["special_tokens"][token]["ids"][0].as_u64()?.try_into().ok()
}

/// A `tokenizer.json` that puts `begin`, a token and its id, before each text, or nothing, and never anything else: as
/// it is, if it does so already.
pub(super) fn beginning<'a>(tokenizer: &'a str, begin: Option<(&str, u32)>) -> Cow<'a, str> {
    let Ok(Value::Object(mut file)) = serde_json::from_str(tokenizer) else { return tokenizer.into() };
    let processor = file.get("post_processor").cloned().unwrap_or_default();
    let (adding, others): (Vec<&Value>, Vec<&Value>) =
        steps(&processor).into_iter().partition(|step| adds(step));
    let is_so = match adding.as_slice() {
        [] => begin.is_none(),
        [step] => adds_only(step, begin),
        _ => false,
    };
    if is_so {
        return tokenizer.into();
    }
    let others = others.into_iter().filter(|step| !step.is_null()).cloned();
    let mut steps: Vec<Value> = others.chain(begin.map(template)).collect();
    let processor = match steps.len() {
        0 | 1 => steps.pop().unwrap_or_default(),
        _ => json!({ "type": "Sequence", "processors": steps }),
    };
    file.insert("post_processor".to_owned(), processor);
    Value::Object(file).to_string().into()
}

/// Whether a step puts tokens around a text.
fn adds(step: &Value) -> bool {
    step["type"].as_str().is_some_and(|kind| ADDING.contains(&kind))
}

/// Whether a step puts `begin` before a text, or nothing, and nothing after it.
fn adds_only(step: &Value, begin: Option<(&str, u32)>) -> bool {
    let pieces = step["single"].as_array().and_then(|pieces| pieces.split_last());
    let Some((text, before)) = pieces else { return false };
    let is_so = match (before, begin) {
        ([], None) => true,
        ([piece], Some((_, id))) => {
            let token = piece["SpecialToken"]["id"].as_str();
            token.is_some_and(|token| step["special_tokens"][token]["ids"] == json!([id]))
        }
        _ => false,
    };
    is_so && text["Sequence"]["id"] == "A"
}

/// The processor that begins each text with a token.
fn template((token, id): (&str, u32)) -> Value {
    let special = |kind: u8| json!({ "SpecialToken": { "id": token, "type_id": kind } });
    let text = |name: &str, kind: u8| json!({ "Sequence": { "id": name, "type_id": kind } });
    json!({
        "type": "TemplateProcessing",
        "single": [special(0), text("A", 0)],
        "pair": [special(0), text("A", 0), special(1), text("B", 1)],
        "special_tokens": { token: { "id": token, "ids": [id], "tokens": [token] } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokenizer_begins_texts_as_it_is_told() {
        let plain = json!({ "model": { "vocab": { "a": 0 } }, "post_processor": { "type": "ByteLevel" } })
            .to_string();
        assert_eq!(beginning(&plain, None), plain);
        let with = beginning(&plain, Some(("<s>", 7)));
        let read: Value = serde_json::from_str(&with).expect("JSON");
        assert_eq!((begin(&read), &read["model"]["vocab"]["a"]), (Some(7), &json!(0)));
        assert_eq!(beginning(&with, Some(("<s>", 7))), with);
        let without: Value = serde_json::from_str(&beginning(&with, None)).expect("JSON");
        assert_eq!(without["post_processor"], json!({ "type": "ByteLevel" }));
        // A template alone leaves nothing.
        let alone = beginning("{}", Some(("<s>", 7)));
        assert_eq!(beginning(&alone, None), json!({ "post_processor": null }).to_string());
    }

    #[test]
    fn whatever_else_a_tokenizer_adds_is_taken_out() {
        let (byte_level, end) = (json!({ "type": "ByteLevel" }), json!(["<|endoftext|>", 9]));
        let roberta = json!({ "type": "RobertaProcessing", "sep": end, "cls": ["<s>", 7] });
        let bert = json!({ "type": "BertProcessing", "sep": end, "cls": ["<s>", 7] });
        let a = json!({ "Sequence": { "id": "A", "type_id": 0 } });
        let token = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
        let of = |single: Value| {
            let ids = |name: &str, id: u32| json!({ "id": name, "ids": [id], "tokens": [name] });
            let ids = json!({ "<s>": ids("<s>", 7), "<|endoftext|>": ids("<|endoftext|>", 9) });
            json!({ "type": "TemplateProcessing", "single": single, "special_tokens": ids })
        };
        let sequence = |steps: Value| json!({ "type": "Sequence", "processors": steps });
        let after = of(json!([a, token("<|endoftext|>")]));
        let around = of(json!([token("<s>"), a, token("<|endoftext|>")]));
        let twice = of(json!([token("<s>"), token("<s>"), a]));
        let (plain, begun) = (of(json!([a])), of(json!([token("<s>"), a])));
        let written = |processor: &Value, begin: Option<(&str, u32)>| {
            let file = json!({ "post_processor": processor }).to_string();
            let file: Value = serde_json::from_str(&beginning(&file, begin)).expect("JSON");
            file["post_processor"].clone()
        };
        let start = Some(("<s>", 7));
        for other in [&after, &around, &twice, &roberta, &bert] {
            let several = sequence(json!([byte_level, sequence(json!([other]))]));
            assert_eq!(written(other, None), Value::Null);
            assert_eq!(written(other, start), template(("<s>", 7)));
            assert_eq!(written(&several, None), byte_level);
            assert_eq!(written(&several, start), sequence(json!([byte_level, template(("<s>", 7))])));
        }
        let both = sequence(json!([begun, after]));
        assert_eq!(written(&both, start), template(("<s>", 7)));
        for (processor, begin) in [(&plain, None), (&begun, start), (&byte_level, None)] {
            for processor in [processor.clone(), sequence(json!([byte_level, processor]))] {
                assert_eq!(written(&processor, begin), processor);
            }
        }
        assert_eq!(written(&begun, Some(("<|endoftext|>", 9))), template(("<|endoftext|>", 9)));
    }

    #[test]
    fn the_first_piece_of_a_template_begins_a_text_if_it_is_special() {
        let (text, token) =
            (json!({ "Sequence": { "id": "A" } }), json!({ "SpecialToken": { "id": "<s>" } }));
        let template_of = |single: Value| {
            let ids = json!({ "<s>": { "id": "<s>", "ids": [7], "tokens": ["<s>"] } });
            json!({ "type": "TemplateProcessing", "single": single, "special_tokens": ids })
        };
        let of = |processor: Value| begin(&json!({ "post_processor": processor }));
        assert_eq!(of(template_of(json!([token, text]))), Some(7));
        assert_eq!(of(template_of(json!([text, token]))), None);
        let steps = json!([{ "type": "ByteLevel" }, template_of(json!([token, text]))]);
        assert_eq!(of(json!({ "type": "Sequence", "processors": steps })), Some(7));
        assert_eq!(of(json!({ "type": "ByteLevel" })), None);
        assert_eq!(of(Value::Null), None);
    }
}
