//! Shards of what other programs wrote.

use millstream::config::{SampleConfig, SourceConfig, SourceKind};

use crate::text::{Case, all, assert_same};

fn source(kind: SourceKind, path: &str) -> SourceConfig {
    let field = if kind == SourceKind::Tar { "txt" } else { "text" };
    SourceConfig {
        kind,
        field: Some(field.to_owned()),
        paths: vec![format!("{}/tests/data/{path}", env!("CARGO_MANIFEST_DIR"))],
        ..SourceConfig::default()
    }
}

fn sources() -> Vec<SourceConfig> {
    let huggingface = |path: &str| source(SourceKind::Huggingface, &format!("huggingface/{path}"));
    let test = |config: SourceConfig| SourceConfig { part: Some("test".to_owned()), ..config };
    let parquet = || source(SourceKind::Parquet, "formats/*.parquet");
    let filter = Some("lang <> 'de'".to_owned());
    let sample = Some(SampleConfig { field: "quality".to_owned(), max: 4.0 });
    vec![
        parquet(),
        SourceConfig { filter, sample, ..parquet() },
        source(SourceKind::Arrow, "formats/*.arrow"),
        source(SourceKind::Tar, "formats/*.tar*"),
        source(SourceKind::Mds, "formats/mds-zstd"),
        huggingface("saved"),
        test(huggingface("saved_parts")),
        huggingface("cache"),
        huggingface("listed"),
        huggingface("tables"),
    ]
}

#[test]
fn shards_give_what_any_format_gives_and_cursors_go_both_ways() {
    for source in sources() {
        let mut case = Case::new(&["of no use".to_owned()], |_| {});
        case.config.sources = vec![source];
        case.config.pipeline.seq_len = 200;
        case.prepare().expect("prepared");
        let text = all(&case.config, None).expect("text");
        assert!(!text.is_empty());
        assert_same(&text, &all(&case.sharded(), None).expect("shards"));
        for batch in text.iter().step_by(5) {
            let rest = &text[batch.number() as usize + 1..];
            assert_same(rest, &all(&case.sharded(), Some(batch.cursor())).expect("a cursor of the text"));
            assert_same(rest, &all(&case.config, Some(batch.cursor())).expect("a cursor of the shards"));
        }
    }
}
