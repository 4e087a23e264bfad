//! Token files of other programs, as `import` reads them.

use millstream::Error;
use millstream::prepare::{Import, TokenFormat, import};
use millstream::tokenizer::ByteTokenizer;

use crate::desk::{Desk, two_files};
use crate::settings::Settings;

pub(crate) fn megatron(input: &[u8]) {
    let (files, settings) = Settings::split(input);
    let (index, tokens) = two_files(files);
    Desk::with(|desk| {
        desk.write("megatron.idx", index);
        desk.write("megatron.bin", tokens);
        check(desk, "megatron.bin", TokenFormat::Megatron, &settings);
    });
}

pub(crate) fn nanogpt(input: &[u8]) {
    let (file, settings) = Settings::split(input);
    Desk::with(|desk| {
        desk.write("nanogpt.bin", file);
        check(desk, "nanogpt.bin", TokenFormat::NanoGpt, &settings);
    });
}

fn check(desk: &Desk, file: &str, format: TokenFormat, settings: &Settings) {
    let how = Import { eos: [None, Some(0), Some(256)][settings.choice(3)], width: 2 };
    desk.clear("imported");
    let imported = import(&desk.path(file), format, how, &ByteTokenizer, &desk.path("imported"));
    assert!(!matches!(imported, Err(Error::Panic { .. })), "{imported:?}");
}
