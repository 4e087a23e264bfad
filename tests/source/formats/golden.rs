//! What is delivered is what the programs that wrote the files find in them.

use millstream::LaneCursor;
use millstream::config::{ChatConfig, SourceConfig, Task};

use super::others::{Row, at, bytes, config, groups, path, rows};
use crate::corpus::{Corpus, all, open, run, texts};

fn found(config: &SourceConfig) -> Vec<String> {
    run(async {
        let seen = all(open(config).await.documents(&LaneCursor::default())).await;
        texts(&seen).into_iter().map(str::to_owned).collect()
    })
}

fn deep(rows: &[Row]) -> Vec<&str> {
    rows.iter().filter_map(|row| Some(row.doc.as_ref()?.body.text.as_str())).collect()
}

#[test]
fn each_file_has_the_documents_that_its_own_reader_finds() {
    let mut files = 0;
    for group in groups() {
        for name in &group.files {
            assert_eq!(found(&config(name)), group.texts, "{name}");
            files += 1;
        }
    }
    assert_eq!(files, 25);
}

#[test]
fn a_file_of_arrow_needs_no_mark_of_its_end_before_the_footer() {
    let mut file = bytes("file.arrow");
    let [.., a, b, c, d, _, _, _, _, _, _] = file[..] else { panic!("it is short") };
    let footer = file.len() - 10 - u32::from_le_bytes([a, b, c, d]) as usize;
    let mark: Vec<u8> = file.drain(footer - 8..footer).collect();
    assert_eq!(mark, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let corpus = Corpus::new([("file.arrow", &file[..])]);
    let whole = config("file.arrow");
    assert_eq!(found(&SourceConfig { paths: vec![corpus.path("*")], ..whole.clone() }), found(&whole));
}

#[test]
fn texts_lie_within_structs_and_json_too() {
    let rows = rows();
    for name in ["snappy.parquet", "zstd.parquet", "stream.arrow", "zstd.arrow"] {
        assert_eq!(found(&at("doc.body.text", config(name))), deep(&rows), "{name}");
    }
    assert_eq!(found(&at("json.doc.body.text", config("gnu.tar"))), deep(&rows[..8]));
    assert_eq!(found(&at("meta.doc.body.text", config("mds"))), deep(&rows[..30]));
    assert_eq!(found(&at("raw", config("mds"))), found(&config("mds")));
}

#[test]
fn shards_may_be_named_one_by_one() {
    let paths = vec![path("mds/*.mds").display().to_string()];
    assert_eq!(found(&SourceConfig { paths, ..config("mds") }), found(&config("mds")));
}

#[test]
fn columns_of_shards_are_fields_of_a_record() {
    let fields = [("prompt", "text"), ("completion", "raw")];
    let fields = fields.map(|(name, column)| (name.to_owned(), column.to_owned())).into();
    let chat = ChatConfig { fields, ..ChatConfig::default() };
    for name in ["mds", "mds-zstd"] {
        let group = groups().into_iter().find(|group| group.files.iter().any(|file| file == name));
        let config = config(name).with_task(Task::Completion).with_chat(chat.clone());
        // The column of bytes has the text once more.
        let expected: Vec<String> =
            group.expect("it is there").texts.iter().map(|text| format!("{text}{text}")).collect();
        assert_eq!(found(&config), expected, "{name}");
    }
}
