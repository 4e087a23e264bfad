//! What cannot be mended is a clear error, and what a server cannot do is done without or said.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream::Error;
use millstream::config::{ByteCount, SourceConfig, StoreConfig};

use super::corpus::{
    asked_once, batches, block_on, chain, config, files, hasty, lines, open, open_source, remote, serve,
    texts,
};
use crate::support::pointer::{POINTER, assert_named};
use crate::support::server::{Content, Fault, Request, Server};
use crate::support::wait::{PATIENCE, ends, wait_for};

/// Opens a corpus, changes a file, and says how reading ends.
fn after_a_change(change: impl FnOnce(&Server)) -> String {
    let files = files(&[900]);
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    change(&server);
    let (_, error) = block_on(texts(&source));
    let error = error.expect("an error");
    assert!(matches!(error, Error::Corpus { .. }), "{error:?}");
    error.to_string().replace(&server.url("d/000.txt"), "URL")
}

#[test]
fn a_file_that_changes_is_an_error() {
    let whole = |how: &str| {
        format!(
            "URL has changed since the corpus was opened: {how}; leave the files alone while they are read, and open \
             the corpus again"
        )
    };
    let bytes = files(&[900]).remove(0).1;
    let another = |etag: Option<&str>, bytes: &[u8]| Content {
        etag: etag.map(str::to_owned),
        ..Content::new(bytes.to_vec())
    };
    let said = after_a_change(|server| server.set("d/000.txt", another(Some("\"two\""), &bytes)));
    assert_eq!(said, whole("its etag has changed"));
    let said = after_a_change(|server| server.set("d/000.txt", another(Some("\"one\""), &bytes[1..])));
    let (was, is) = (bytes.len(), bytes.len() - 1);
    assert_eq!(said, whole(&format!("it was {was} bytes long and is {is} bytes long now")));
    let said = after_a_change(|server| server.set("d/000.txt", another(Some("\"one\""), b"short")));
    assert_eq!(said, whole(&format!("it was {was} bytes long and is 5 bytes long now")));
    let said = after_a_change(|server| server.state.files.lock().expect("no panic").clear());
    assert_eq!(said, whole("it is gone"));
}

#[test]
fn a_pointer_that_git_lfs_left_is_named() {
    let files = [("d/a.txt".to_owned(), b"one\n".to_vec()), ("d/b.txt".to_owned(), POINTER.into())];
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    let error = block_on(texts(&source)).1.expect("an error");
    assert_named(&error, &server.url("d/b.txt"));
}

#[test]
fn a_change_is_seen_whatever_the_server_says_of_it() {
    let bytes = files(&[900]).remove(0).1;
    let versions = [
        (Some("W/\"one\""), None, Some("W/\"two\""), None),
        (None, Some("Sat, 21 Nov 2026 10:00:00 GMT"), None, Some("Sat, 21 Nov 2026 10:00:01 GMT")),
        (Some("\"one\""), None, None, None),
    ];
    for (etag, modified, new_etag, new_modified) in versions {
        let content = |etag: Option<&str>, modified: Option<&str>| Content {
            etag: etag.map(str::to_owned),
            modified: modified.map(str::to_owned),
            ..Content::new(bytes.clone())
        };
        let server = Server::new([("a.txt", content(etag, modified))]);
        let source = block_on(open_source(&lines(vec![server.url("a.txt")]), &hasty())).expect("it opens");
        let (found, error) = block_on(texts(&source));
        assert!(error.is_none() && found.len() == 900, "{error:?}");
        server.set("a.txt", content(new_etag, new_modified));
        let (_, error) = block_on(texts(&source));
        assert!(error.expect("an error").to_string().contains(" has changed since the corpus was opened: "));
    }
}

#[test]
fn a_change_in_the_middle_ends_the_stream_and_mixes_nothing() {
    let files = files(&[5000]);
    let server = serve(&files);
    let store = StoreConfig { concurrency: 1, ..hasty() };
    let whole = SourceConfig { split: Some(ByteCount::mib(1)), ..remote(&server, &files) };
    let source = block_on(open_source(&whole, &store)).expect("it opens");
    let (state, nth) = (server.state.clone(), AtomicUsize::new(0));
    let old = String::from_utf8(files[0].1.clone()).expect("text");
    let new: String = old.to_uppercase();
    server.with_faults(move |_| {
        if nth.fetch_add(1, Ordering::SeqCst) == 8 {
            let content = Content { etag: Some("\"two\"".to_owned()), ..Content::new(new.clone()) };
            state.files.lock().expect("no panic").insert("d/000.txt".to_owned(), content);
        }
        Fault::Nothing
    });
    let (found, error) = block_on(texts(&source.with_slab_bytes(2048)));
    assert!(error.expect("an error").to_string().contains("its etag has changed"));
    assert!(!found.is_empty() && found.len() < 5000);
    assert!(old.lines().zip(&found).all(|(line, found)| line == found));
}

#[test]
fn a_cursor_of_another_version_is_refused() {
    let files = files(&[300]);
    let server = serve(&files);
    let config = config(remote(&server, &files));
    let cursor = block_on(batches(&config)).expect("no errors")[1].cursor().clone();
    block_on(open(&config, Some(&cursor))).expect("it resumes");
    server.set("d/000.txt", Content { etag: Some("\"two\"".to_owned()), ..Content::new(files[0].1.clone()) });
    let error = block_on(open(&config, Some(&cursor))).expect_err("refused");
    assert!(matches!(&error, Error::Fingerprint { field, .. } if field == "source.0.files"), "{error}");
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    let files = files(&[100]);
    let server = serve(&files);
    let source = remote(&server, &files);
    let nth = AtomicUsize::new(0);
    server.with_faults(move |_| match nth.fetch_add(1, Ordering::SeqCst) {
        0 => Fault::Status(503, Some(1)),
        _ => Fault::Nothing,
    });
    let began = Instant::now();
    block_on(open_source(&source, &hasty())).expect("it opens");
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn the_deadline_ends_what_never_comes() {
    let files = files(&[900]);
    let ends_of = |fault: Fault, store: &StoreConfig| {
        let server = serve(&files);
        let open = || block_on(open_source(&remote(&server, &files), store)).ok();
        let source = wait_for("an open source", open);
        server.with_faults(move |_| fault);
        let (found, error) = block_on(ends(texts(&source)));
        assert!(found.is_empty());
        chain(&error.expect("an error"))
    };
    let end = |fault| ends_of(fault, &asked_once());
    let said = end(Fault::Status(500, None));
    assert!(
        said.contains("/d/000.txt: cannot read: ") && said.contains("500 Internal Server Error"),
        "{said}"
    );
    assert!(end(Fault::Status(503, Some(u64::MAX))).contains("503 Service Unavailable"));
    assert!(end(Fault::Closed).contains("/d/000.txt: cannot read: "));
    assert!(end(Fault::Cut(0)).contains("/d/000.txt: cannot read: "));
    assert!(end(Fault::Short(usize::MAX)).ends_with("the answer is shorter than it says"));
    let said = ends_of(Fault::Silent(3 * PATIENCE), &StoreConfig { deadline: 0.3, ..hasty() });
    assert!(said.contains("timed out"), "{said}");
}

#[test]
fn a_refusal_says_what_to_do_and_shows_no_page() {
    let files = files(&[900]);
    for (status, said) in [
        (404, "the server answers 404 Not Found; check the name"),
        (503, "the server answers 503 Service Unavailable; try again later, or raise store.deadline"),
        (418, "the server answers 418 I'm a teapot"),
    ] {
        let server = serve(&files);
        server.with_faults(move |_| Fault::Page(status));
        let error = block_on(open_source(&remote(&server, &files), &asked_once())).expect_err("refused");
        let error = chain(&error);
        assert!(error.contains("/d/000.txt: cannot look at the file: ") && error.ends_with(said), "{error}");
        server.with_faults(move |_| Fault::Status(status, None));
        let error = block_on(open_source(&remote(&server, &files), &hasty())).map(drop);
        let error = if status == 503 { continue } else { chain(&error.expect_err("refused")) };
        assert!(error.contains(": nope"), "{error}");
    }
}

#[test]
fn what_is_refused_is_not_asked_for_again() {
    let files = files(&[900]);
    for (status, said) in [(400, "400 Bad Request"), (401, "credentials"), (403, "credentials")] {
        let server = serve(&files);
        let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
        let store = StoreConfig { concurrency: 1, ..hasty() };
        server.with_faults(move |_| Fault::Status(status, None));
        server.requests();
        let error = block_on(open_source(&remote(&server, &files), &store)).expect_err("refused");
        assert!(chain(&error).contains(said), "{}", chain(&error));
        assert!(server.requests().len() <= 2);
        let (_, error) = block_on(texts(&source));
        assert!(chain(&error.expect("an error")).contains(said));
    }
}

#[test]
fn a_server_without_ranges_is_said_at_once() {
    let server = serve(&files(&[10]));
    server.with_faults(|_| Fault::NoRanges);
    let error = block_on(open_source(&lines(vec![server.url("d/000.txt")]), &hasty())).expect_err("refused");
    assert!(
        chain(&error)
            .contains("the server does not serve parts of files: use one that answers range requests")
    );
}

#[test]
fn an_answer_in_a_coding_is_no_text() {
    let files = files(&[300]);
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    let whole = server.requests();
    assert!(whole.iter().all(|it| it.headers.get("accept-encoding").is_some_and(|it| it == "identity")));
    // What is stored so has the length of its range; but nothing here decodes brotli.
    for (coding, len) in [("gzip", 100), ("gzip", 3000), ("br", 3000), ("br", files[0].1.len())] {
        server.with_faults(move |_| Fault::Coded(coding, len));
        let (found, error) = block_on(ends(texts(&source)));
        let said = chain(&error.expect("an error"));
        assert!(found.is_empty() && said.contains("/d/000.txt: ") && said.contains(coding), "{said}");
        let error = block_on(open_source(&remote(&server, &files), &hasty())).expect_err("refused");
        assert!(chain(&error).contains("turn off compression"), "{}", chain(&error));
    }
}

#[test]
fn an_answer_that_says_what_is_wrong_may_be_in_a_coding() {
    let files = files(&[300]);
    let server = serve(&files);
    server.with_faults(|request| match request.method.as_str() {
        "HEAD" => Fault::Nothing,
        _ => Fault::StatusIn(403, "gzip"),
    });
    let error = block_on(open_source(&remote(&server, &files), &hasty())).expect_err("refused");
    let said = chain(&error);
    assert!(
        said.contains("credentials") && !said.contains("compression") && !said.contains("nope"),
        "{said}"
    );
    // What a server asks to be repeated is repeated.
    let mut asked = 0;
    server.with_faults(move |_| {
        asked += 1;
        if asked < 3 { Fault::StatusIn(503, "gzip") } else { Fault::Nothing }
    });
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    assert_eq!(block_on(texts(&source)).0.len(), 300);
}

#[test]
fn a_file_that_is_stored_in_a_coding_is_read_as_it_is_stored() {
    let server = Server::new([("a.txt", Content::new("one\n"))]);
    server.with_faults(|request| {
        let (from, to) = request.range(4).expect("a range");
        Fault::Coded("gzip", to - from)
    });
    let source = block_on(open_source(&lines(vec![server.url("a.txt")]), &hasty())).expect("it opens");
    assert!(block_on(texts(&source)).1.is_none());
}

#[test]
fn an_answer_of_another_length_than_its_range_is_an_error() {
    let files = files(&[300]);
    let server = serve(&files);
    let source = block_on(open_source(&remote(&server, &files), &asked_once())).expect("it opens");
    for len in [100, 30_000] {
        server.with_faults(move |_| Fault::Coded("identity", len));
        let (found, error) = block_on(ends(texts(&source)));
        assert!(found.is_empty() && chain(&error.expect("an error")).contains("than it says"));
    }
}

#[test]
fn a_signed_url_that_has_expired_is_said_and_its_signature_is_not() {
    let files = files(&[300]);
    let server = serve(&files);
    let signed = lines(vec![server.url("d/000.txt?X-Amz-Expires=60&X-Amz-Signature=secret")]);
    let source = block_on(open_source(&signed, &hasty())).expect("it opens");
    assert!(server.requests().iter().all(|it| it.query.contains("secret")));
    let assert_said = |error: &Error| {
        let said = format!("{} {error:?}", chain(error));
        assert!(said.contains("/d/000.txt: ") && said.contains("get a new URL"), "{said}");
        assert!(!said.contains("secret") && !said.contains("AWS_"), "{said}");
    };
    server.with_faults(|_| Fault::Status(403, None));
    assert_said(&block_on(open_source(&signed, &hasty())).expect_err("refused"));
    assert_said(&block_on(texts(&source)).1.expect("an error"));
    for status in [400, 500] {
        server.with_faults(move |_| Fault::Status(status, None));
        let error = block_on(open_source(&signed, &asked_once())).expect_err("refused");
        assert!(!format!("{} {error:?}", chain(&error)).contains("secret"), "{error:?}");
    }
}

#[test]
fn a_renewed_url_of_the_same_file_resumes() {
    let files = files(&[300]);
    let server = serve(&files);
    let with = |query: &str| config(lines(vec![server.url(&format!("d/000.txt?{query}"))]));
    let first = with("versionId=7&Expires=1&Signature=a");
    let cursor = block_on(batches(&first)).expect("no errors")[1].cursor().clone();
    block_on(open(&with("versionId=7&Expires=2&Signature=b"), Some(&cursor))).expect("it resumes");
    let error =
        block_on(open(&with("versionId=8&Expires=2&Signature=b"), Some(&cursor))).expect_err("refused");
    assert!(matches!(&error, Error::Fingerprint { .. }), "{error}");
}

#[test]
fn a_server_need_not_know_how_to_be_asked_without_a_body() {
    let files = files(&[10]);
    let server = serve(&files);
    let without_head = |request: &Request| match request.method.as_str() {
        "HEAD" => Fault::Status(501, None),
        _ => Fault::Nothing,
    };
    server.with_faults(without_head);
    let source = block_on(open_source(&remote(&server, &files), &hasty())).expect("it opens");
    assert_eq!(block_on(texts(&source)).0.len(), 10);
}

#[test]
fn empty_files_and_queries_and_strange_names_are_read() {
    let names = ["empty.txt", "a b/ü.txt", "x/~q+&='.txt"];
    let contents = ["", "one\ntwo", "three\n"];
    let files = names.iter().zip(contents).map(|(name, text)| {
        // As they stand in a request.
        let name = name.replace(' ', "%20").replace('ü', "%C3%BC");
        (name, Content::new(text))
    });
    let server = Server::new(files);
    let urls = vec![
        server.url("empty.txt?signature=A%2FB"),
        server.url("a%20b/%C3%BC.txt"),
        server.url("x/~q+&='.txt?v=1"),
    ];
    let source = block_on(open_source(&lines(urls), &hasty())).expect("it opens");
    assert_eq!(block_on(texts(&source)).0, ["one", "two", "three"]);
    let of = |path: &str| {
        server
            .requests()
            .iter()
            .filter(|it| it.path.ends_with(path))
            .map(|it| it.query.clone())
            .collect::<Vec<_>>()
    };
    assert!(of("empty.txt").iter().all(|query| query == "signature=A%2FB"));
}

#[test]
fn what_cannot_be_listed_or_found_is_said() {
    let server = serve(&files(&[10]));
    let said = |path: String| {
        let error = block_on(open_source(&lines(vec![path]), &hasty())).expect_err("refused");
        chain(&error).replace(&server.url(""), "URL/")
    };
    assert_eq!(
        said(server.url("d/*.txt")),
        "source.0.paths: \"URL/d/*.txt\" has a glob, and HTTP servers cannot be listed; name each file"
    );
    assert!(said(server.url("nothing.txt")).starts_with("URL/nothing.txt: cannot look at the file: "));
    assert!(said("ftp://h/x".to_owned()).contains("is not in a store that can be read; those are s3, "));
    assert!(said(server.url("a//b")).contains("is not a file in a store: "));
    assert!(said(server.url("o/d%2Fa.txt")).contains("is escaped (%2F)"));
    let dead = StoreConfig { deadline: 0.2, ..hasty() };
    let error =
        block_on(open_source(&lines(vec!["http://127.0.0.1:9/x".to_owned()]), &dead)).expect_err("refused");
    assert!(
        chain(&error).starts_with("http://127.0.0.1:9/x: cannot look at the file: "),
        "{}",
        chain(&error)
    );
}

#[test]
fn a_runtime_without_a_network_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let source = lines(vec!["http://127.0.0.1:9/x".to_owned()]);
    let error = runtime.block_on(open_source(&source, &hasty())).expect_err("refused");
    assert!(matches!(error, Error::Panic { stage: "store", .. }), "{error:?}");
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let refused = |change: fn(&mut StoreConfig)| {
        let mut store = StoreConfig::default();
        change(&mut store);
        let source = lines(vec!["http://127.0.0.1:9/x".to_owned()]);
        block_on(open_source(&source, &store)).expect_err("refused").to_string()
    };
    assert_eq!(
        refused(|store| store.block = ByteCount(7)),
        "`store.block` must be from 4KiB to 1GiB, not 7B"
    );
    assert!(
        refused(|store| store.concurrency = 5000)
            .starts_with("`store.concurrency` must be from 1 to 4096, not 5000")
    );
    assert!(refused(|store| store.timeout = f64::NAN).starts_with("`store.timeout` must be "));
    assert!(refused(|store| store.deadline = 0.0).starts_with("`store.deadline` must be "));
    assert!(refused(|store| store.backoff = 20.0).starts_with("`store.backoff_max` must be at least "));
    assert!(
        refused(|store| store.cache_limit = ByteCount(1))
            .starts_with("`store.cache_limit` must be at least ")
    );
}

#[test]
fn lines_of_remote_files_are_known_where_they_are_counted_from_the_start() {
    let files = files(&[900]);
    let server = serve(&files);
    let config = config(remote(&server, &files));
    let found = block_on(batches(&config)).expect("no errors");
    let lines: Vec<u64> =
        found.iter().flat_map(|batch| batch.pieces().iter().map(|piece| batch.line(piece))).collect();
    assert!(lines.contains(&0) && lines.contains(&1));
}
