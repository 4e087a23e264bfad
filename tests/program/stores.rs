//! The program over a store: its cache, and what its log says.

use std::fs;

use crate::program::{millstream, said};
use crate::remote::{entries, files, serve, size};
use crate::support::server::Fault;

/// Whatever the length that a power failure left an entry with, the program says that it is damaged, and no more.
#[test]
fn an_entry_that_was_cut_off_is_damage_and_no_panic() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = files(&[900]);
    let server = serve(&files);
    let config = directory.path().join("config.toml");
    let cache = directory.path().join("cache");
    let text = format!(
        "[[source]]\npaths = [{:?}]\n\n[store]\nblock = \"4KiB\"\ncache = {cache:?}\n\n[tokenizer]\nkind = \"bytes\"\n\n\
         [pipeline]\nseq_len = 64\nlanes = 1\nepochs = 1\n",
        server.url("d/000.txt")
    );
    fs::write(&config, text).expect("written");
    let digest = || {
        let output = millstream(&["digest", config.to_str().expect("a name"), "-n", "1000"]).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        (output.stdout.clone(), said(&output))
    };
    let (expected, _) = digest();
    let (kept, _) = entries(&cache);
    for (len, path) in kept.iter().enumerate() {
        fs::File::options().write(true).open(path).expect("an entry").set_len(len as u64).expect("cut off");
    }
    assert!(kept.len() > 9, "more entries than a checksum has bytes");
    let (found, said) = digest();
    assert_eq!(found, expected);
    assert!(said.contains("a damaged entry is removed") && !said.contains("panicked"), "{said}");
}

/// A cache on a full disk, or with an entry that cannot be removed while it is over its limit, is told and changes no row.
#[cfg(target_os = "linux")]
#[test]
fn a_cache_without_room_or_with_entries_that_stay_ends_nothing() {
    use crate::support::faults::inject;
    let [busy, no_space, over_quota] = [16, 28, 122];
    let directory = tempfile::tempdir().expect("a directory");
    // More than a cache's least limit.
    let files = files(&[9000, 9000, 9000]);
    let server = serve(&files);
    let (config, cache) = (directory.path().join("config.toml"), directory.path().join("kept"));
    let urls: Vec<String> = files.iter().map(|(name, _)| server.url(name)).collect();
    let text = format!(
        "[[source]]\npaths = {urls:?}\n\n[store]\nblock = \"64KiB\"\ncache = {cache:?}\n\n[tokenizer]\n\
         kind = \"bytes\"\n\n[pipeline]\nseq_len = 64\nlanes = 1\nepochs = 1\n"
    );
    fs::write(&config, text).expect("written");
    let config = config.to_str().expect("a name");
    let digest = |faults: &[(&str, &str, i32)], more: &[&str]| {
        let mut command = millstream(&[&["digest", config, "-n", "1000000"][..], more].concat());
        inject(&mut command, faults);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        (output.stdout.clone(), said(&output))
    };
    let (expected, _) = digest(&[], &["--set", "store.cache_limit=64MiB"]);
    let held = size(&cache);
    assert!(held > 1 << 20, "{held}");
    let (found, told) = digest(&[("unlink", "/kept/", busy)], &["--set", "store.cache_limit=1MiB"]);
    assert!(found == expected && told.contains("cannot remove an entry from the cache"), "{told}");
    assert!(size(&cache) >= held);
    for error in [no_space, over_quota] {
        for is_there in [true, false] {
            let (found, told) = digest(&[("create", "/kept", error)], &[]);
            let wanted = "the store cache keeps nothing until there is room";
            assert!(found == expected && told.contains(wanted), "{told}");
            assert_eq!(cache.exists(), is_there);
            drop(fs::remove_dir_all(&cache));
        }
        digest(&[], &[]);
    }
}

#[test]
fn no_log_shows_a_signature() {
    let server = serve(&files(&[300]));
    server.with_faults({
        let mut read = 0;
        move |request| {
            read += usize::from(request.method == "GET");
            match read {
                1 => Fault::Cut(10),
                2 => Fault::Status(503, None),
                _ => Fault::Nothing,
            }
        }
    });
    let directory = tempfile::tempdir().expect("a directory");
    let url = server.url("d/000.txt?X-Amz-Expires=60&X-Amz-Signature=secret");
    let config =
        format!("tokenizer.kind = \"bytes\"\n[pipeline]\nseq_len = 8\n[[source]]\npaths = [{url:?}]\n");
    std::fs::write(directory.path().join("a.toml"), config).expect("a config");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["digest", "a.toml", "--batches", "3"])
        .current_dir(directory.path())
        .env("RUST_LOG", "trace")
        .output()
        .expect("it runs");
    let logged = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{logged}");
    assert!(logged.contains("TRACE") && logged.contains("/d/000.txt"), "{logged}");
    assert!(!logged.contains("secret"), "{logged}");
    assert!(server.requests().iter().any(|it| it.query.contains("secret")));
}
