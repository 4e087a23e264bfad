//! The tokens that a `tokenizer.json` of the Hugging Face libraries puts around a text.
//!
//! They stand in the file's post-processor: Llama's begins each text with a token, Qwen's does not. The post-processor
//! may have several steps.

use serde::Deserialize;
use serde_json::Value;

/// The tokens around a text, each with its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The tokens before it.
    pub before: Vec<(String, u32)>,
    /// The tokens after it.
    pub after: Vec<(String, u32)>,
}

impl Template {
    /// The template in a `tokenizer.json`. In a file that has none, or is something else, it is empty.
    pub fn read(json: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            post_processor: Value,
        }
        let file: Option<File> = serde_json::from_slice(json).ok();
        let step =
            file.as_ref().and_then(|file| steps(&file.post_processor).into_iter().find(|step| adds(step)));
        step.map(Self::from_step).unwrap_or_default()
    }

    fn from_step(step: &Value) -> Self {
        if step["type"] != "TemplateProcessing" {
            let token = |key: &str| token(&step[key][0], &step[key][1]).into_iter().collect();
            return Self { before: token("cls"), after: token("sep") };
        }
        let pieces = step["single"].as_array().map_or(&[][..], Vec::as_slice);
        let text = pieces.iter().position(|piece| piece["Sequence"].is_object()).unwrap_or(pieces.len());
        let tokens = |pieces: &[Value]| pieces.iter().flat_map(|piece| special(step, piece)).collect();
        Self { before: tokens(&pieces[..text]), after: tokens(&pieces[text..]) }
    }
}

/// The tokens of one piece of a template: none if it is the text.
fn special(step: &Value, piece: &Value) -> Vec<(String, u32)> {
    let name = piece["SpecialToken"]["id"].as_str().unwrap_or_default();
    let special = &step["special_tokens"][name];
    let list = |key: &str| special[key].as_array().map_or(&[][..], Vec::as_slice);
    list("tokens").iter().zip(list("ids")).filter_map(|(name, id)| token(name, id)).collect()
}

fn token(name: &Value, id: &Value) -> Option<(String, u32)> {
    Some((name.as_str()?.to_owned(), id.as_u64()?.try_into().ok()?))
}

/// The steps of a post-processor, nested ones included.
pub fn steps(processor: &Value) -> Vec<&Value> {
    match processor["processors"].as_array() {
        Some(several) => several.iter().flat_map(steps).collect(),
        None => vec![processor],
    }
}

/// Whether a step puts tokens around a text. The other kinds change no ids.
pub fn adds(step: &Value) -> bool {
    let adding = ["TemplateProcessing", "BertProcessing", "RobertaProcessing"];
    step["type"].as_str().is_some_and(|kind| adding.contains(&kind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(processor: Value) -> (Vec<u32>, Vec<u32>) {
        let template = Template::read(json!({ "post_processor": processor }).to_string().as_bytes());
        let ids = |tokens: Vec<(String, u32)>| tokens.into_iter().map(|(_, id)| id).collect();
        (ids(template.before), ids(template.after))
    }

    #[test]
    fn the_special_tokens_before_and_after_the_text_are_found() {
        let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
        let token = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
        let of = |single: Value| {
            let ids = json!({
                "<s>": { "id": "<s>", "ids": [7], "tokens": ["<s>"] },
                "<two>": { "id": "<two>", "ids": [3, 4], "tokens": ["<a>", "<b>"] },
            });
            json!({ "type": "TemplateProcessing", "single": single, "special_tokens": ids })
        };
        let (one, both) =
            (of(json!([token("<s>"), text])), of(json!([token("<s>"), token("<two>"), text, token("<s>")])));
        assert_eq!(read(one.clone()), (vec![7], vec![]));
        assert_eq!(read(of(json!([text, token("<s>")]))), (vec![], vec![7]));
        assert_eq!(read(both), (vec![7, 3, 4], vec![7]));
        assert_eq!(read(of(json!([text]))), (vec![], vec![]));
        let steps =
            |last: Value| json!({ "type": "Sequence", "processors": [{ "type": "ByteLevel" }, last] });
        assert_eq!(read(steps(steps(one))), (vec![7], vec![]));
        for kind in ["BertProcessing", "RobertaProcessing"] {
            let around = json!({ "type": kind, "sep": ["</s>", 9], "cls": ["<s>", 7] });
            assert_eq!(read(around.clone()), (vec![7], vec![9]));
            assert_eq!(read(steps(around)), (vec![7], vec![9]));
        }
        assert_eq!(read(json!({ "type": "ByteLevel" })), (vec![], vec![]));
        assert_eq!(read(Value::Null), (vec![], vec![]));
        assert_eq!(Template::read(b"0"), Template::default());
    }
}
