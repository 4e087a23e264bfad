//! Configs, cursors, tokenizers and chat templates.

use std::collections::BTreeMap;
use std::sync::Once;

use futures::StreamExt;
use millstream::config::{
    ByteCount, Config, PipelineConfig, SourceConfig, SourceKind, SpecialTokens, TokenizerConfig,
};
use millstream::render::ChatTemplate;
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::{Encoder, ranks};
use millstream::{Cursor, Error, Loader};

use crate::desk::Desk;
use crate::settings::Settings;

/// A config: it is read or refused, and what is read can be checked.
pub(crate) fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(config) = Config::from_toml(text) {
        let _ = config.validate();
    }
}

/// A cursor: it is refused, or a loader resumes from it.
pub(crate) fn cursor(input: &[u8]) {
    Desk::with(|desk| {
        desk.write("cursor.json", input);
        let Ok(cursor) = Cursor::load(desk.path("cursor.json")) else { return };
        desk.run(async {
            let mut loader = match Loader::resume(&small(), &cursor).await {
                Ok(loader) => loader,
                Err(error) => return assert!(!matches!(error, Error::Panic { .. }), "{error}"),
            };
            for _ in 0..3 {
                match loader.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return assert!(!matches!(error, Error::Panic { .. }), "{error}"),
                    None => return,
                }
            }
        });
    });
}

/// The config that cursors are for.
fn small() -> Config {
    let source = SourceConfig {
        kind: SourceKind::Synthetic,
        documents: Some(200),
        document_bytes: Some(ByteCount(64)),
        ..SourceConfig::default()
    };
    let pipeline = PipelineConfig {
        lanes: 2.into(),
        window: 8.into(),
        seq_len: 16,
        batch_size: 2,
        epochs: Some(2),
        ..PipelineConfig::default()
    };
    Config::default().with_source(source).with_tokenizer(TokenizerConfig::bytes()).with_pipeline(pipeline)
}

/// A `tokenizer.json`: it is refused, or it encodes without a panic.
pub(crate) fn tokenizer(input: &[u8]) {
    // The libraries below panic on some files, which is caught and reported. The fuzzer would stop at each.
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let Ok(json) = std::str::from_utf8(input) else { return };
    if let Ok(tokenizer) = HfTokenizer::from_json("fuzzed", json, SpecialTokens::default()) {
        encode(tokenizer);
    }
}

/// A file of tiktoken's ranks.
pub(crate) fn ranks(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    let Ok(text) = std::str::from_utf8(file) else { return };
    let pattern = [r"\w+|\s+|[^\w\s]+", r"\s+(?!\S)|\s+|\S+"][settings.choice(2)];
    let Ok(json) = ranks::to_json("fuzzed", text, pattern, &BTreeMap::new()) else { return };
    if let Ok(tokenizer) = HfTokenizer::from_json("fuzzed", json, SpecialTokens::default()) {
        encode(tokenizer);
    }
}

fn encode(tokenizer: HfTokenizer) {
    let encoder = Encoder::new(std::sync::Arc::new(tokenizer));
    for text in ["", "a", "fn main() { println!(\"\u{1f980} 123\"); }\n", " \u{301}\u{feff}\r\n\t  end"] {
        let _ = encoder.encode(text, &mut Vec::new());
    }
}

/// A chat template: it is refused, or it renders, within its bounds, and what is special in the text lies in it.
pub(crate) fn template(input: &[u8]) {
    Desk::with(|desk| {
        desk.write("chat_template.jinja", input);
        let config = TokenizerConfig::bytes().with_eos("</s>");
        let path = desk.path("chat_template.jinja");
        let Ok(template) = ChatTemplate::open(&path, &config, Some("2026-11-28")) else { return };
        let chat = [
            ("system", " Be brief. "),
            ("user", "W\u{fc}rzburg \u{1f980}\u{2028}</s>"),
            ("assistant", "<think>\nWhat?\n</think>\n\n{{ yes }}"),
            ("user", ""),
        ];
        for messages in [&chat[..], &chat[1..2]] {
            let Ok(prompt) = template.prompt(messages) else { continue };
            for token in prompt.special {
                assert!(prompt.text.is_char_boundary(token.start) && prompt.text.is_char_boundary(token.end));
            }
        }
    });
}
