//! The cache on disk: what is there is not fetched again, and nothing that happens to it changes a byte.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use millstream::config::{ByteCount, SourceConfig, StoreConfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::corpus::{block_on, entries, files, hasty, lines, open_source, remote, serve, size, texts};
use crate::support::server::{Content, Server};
use crate::support::wait::wait_for;

fn cached(directory: &Path, limit: ByteCount) -> StoreConfig {
    StoreConfig { cache: Some(directory.to_owned()), cache_limit: limit, ..hasty() }
}

/// Reads all and says how many requests that took, beside those that look whether the files are there.
fn read(server: &Server, source: &SourceConfig, store: &StoreConfig, expected: &[String]) -> usize {
    server.requests();
    let source = block_on(open_source(source, store)).expect("it opens");
    let (found, error) = block_on(texts(&source));
    assert!(error.is_none(), "{error:?}");
    assert!(found == expected, "other text");
    server.requests().iter().filter(|request| request.headers["range"] != "bytes=0-0").count()
}

fn all_lines(files: &[(String, Vec<u8>)]) -> Vec<String> {
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).expect("text");
    files.iter().flat_map(|(_, bytes)| text(bytes).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn what_is_cached_is_not_fetched_again_and_another_version_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut files = files(&[900, 900]);
    let server = serve(&files);
    let (source, store) = (remote(&server, &files), cached(directory.path(), ByteCount::mib(4)));
    let first = read(&server, &source, &store, &all_lines(&files));
    assert!(first > 10);
    assert_eq!(read(&server, &source, &store, &all_lines(&files)), 0);
    let (kept, unfinished) = entries(directory.path());
    assert_eq!((kept.len(), unfinished.len()), (first, 0));

    files[1].1 = files[1].1.to_ascii_uppercase();
    let content = Content { etag: Some("\"two\"".to_owned()), ..Content::new(files[1].1.clone()) };
    server.set(&files[1].0, content);
    let again = read(&server, &source, &store, &all_lines(&files));
    assert!(0 < again && again < first);
}

#[test]
fn a_file_whose_server_tells_no_version_is_fetched_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut files = files(&[900]);
    let server = serve(&files);
    let (source, store) = (remote(&server, &files), cached(directory.path(), ByteCount::mib(4)));
    for _ in 0..2 {
        let content = Content { etag: None, ..Content::new(files[0].1.clone()) };
        server.set(&files[0].0, content);
        assert!(read(&server, &source, &store, &all_lines(&files)) > 0);
        // As long as before.
        files[0].1 = files[0].1.to_ascii_uppercase();
    }
    assert_eq!(entries(directory.path()).0.len(), 0);
}

#[test]
fn a_damaged_entry_is_fetched_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = files(&[900]);
    let server = serve(&files);
    let (source, store) = (remote(&server, &files), cached(directory.path(), ByteCount::mib(4)));
    read(&server, &source, &store, &all_lines(&files));
    let (kept, _) = entries(directory.path());
    for (nth, path) in kept.iter().take(4).enumerate() {
        let mut bytes = fs::read(path).expect("an entry");
        match nth {
            0 => bytes.clear(),
            1 => bytes.truncate(7),
            2 => bytes.truncate(100),
            _ => bytes[50] ^= 1,
        }
        fs::write(path, bytes).expect("written");
    }
    assert_eq!(read(&server, &source, &store, &all_lines(&files)), 4);
    assert_eq!(read(&server, &source, &store, &all_lines(&files)), 0);
}

#[test]
fn what_was_used_longest_ago_goes_first_and_the_limit_holds() {
    let directory = tempfile::tempdir().expect("a directory");
    let limit = ByteCount::mib(1);
    let store = cached(directory.path(), limit);
    let files = files(&[3000, 3000, 3000, 3000, 3000, 3000]);
    let server = serve(&files);
    let of = |nth: usize| (remote(&server, &files[nth..=nth]), all_lines(&files[nth..=nth]));
    let (first, first_lines) = of(0);
    let fetched = read(&server, &first, &store, &first_lines);
    for nth in 1..6 {
        let (source, lines) = of(nth);
        assert!(read(&server, &source, &store, &lines) > 0);
        assert!(size(directory.path()) <= limit.0, "{}", size(directory.path()));
        // What is used stays.
        assert_eq!(read(&server, &first, &store, &first_lines), 0, "after file {nth}, of {fetched}");
    }
    assert!(size(directory.path()) > limit.0 / 2);
    let (source, lines) = of(1);
    assert!(read(&server, &source, &store, &lines) > 0, "what was not used is gone");
}

#[test]
fn what_killed_processes_left_is_removed_when_it_is_old() {
    let directory = tempfile::tempdir().expect("a directory");
    let unfinished = directory.path().join("unfinished");
    fs::create_dir_all(&unfinished).expect("a directory");
    for (name, hours) in [("millstream-old", 2), ("millstream-new", 0), ("mine", 2)] {
        let file = fs::File::create(unfinished.join(name)).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).expect("a time");
    }
    let files = files(&[10]);
    let server = serve(&files);
    let store = cached(directory.path(), ByteCount::mib(4));
    read(&server, &remote(&server, &files), &store, &all_lines(&files));
    let left = ["millstream-old", "millstream-new", "mine"].map(|name| unfinished.join(name).exists());
    assert_eq!(left, [false, true, true]);
}

#[test]
fn other_files_in_its_directory_are_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let others = ["runs/model.safetensors", "ab/notes.txt", "ab/cd/0123", "thesis.pdf"];
    let others = others.map(|name| directory.path().join(name));
    for other in &others {
        fs::create_dir_all(other.parent().expect("a parent")).expect("a directory");
        fs::write(other, vec![0; 1 << 20]).expect("a file");
        let file = fs::File::options().write(true).open(other).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(48 * 3600)).expect("a time");
    }
    let files = files(&[3000, 3000]);
    let server = serve(&files);
    let store = cached(directory.path(), ByteCount::mib(1));
    for _ in 0..2 {
        read(&server, &remote(&server, &files), &store, &all_lines(&files));
    }
    assert!(others.iter().all(|other| other.exists()));
}

#[test]
fn a_cache_that_cannot_be_used_is_said_at_the_start() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let files = files(&[10]);
    let server = serve(&files);
    let store = cached(&file.path().join("cache"), ByteCount::mib(4));
    let error = block_on(open_source(&remote(&server, &files), &store)).expect_err("refused");
    assert!(error.to_string().ends_with("cache: cannot use the cache"), "{error}");
}

#[test]
fn a_cache_that_is_gone_in_the_middle_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = files(&[900]);
    let server = serve(&files);
    let (config, store) = (remote(&server, &files), cached(&directory.path().join("c"), ByteCount::mib(4)));
    let source = block_on(open_source(&config, &store)).expect("it opens");
    fs::remove_dir_all(directory.path().join("c")).expect("removed");
    fs::write(directory.path().join("c"), "in the way").expect("written");
    let (found, error) = block_on(texts(&source));
    assert!(error.is_none() && found == all_lines(&files));
}

const CHILD: &str = "MILLSTREAM_TEST_CACHE";

/// Reads a corpus over and over; the environment says which, and how often.
#[test]
#[ignore = "other tests start it as their child"]
fn child() {
    let Ok(orders) = std::env::var(CHILD) else { return };
    let (directory, rest) = orders.split_once('\n').expect("orders");
    let (rounds, urls) = rest.split_once('\n').expect("orders");
    let source = lines(urls.lines().map(str::to_owned).collect());
    let store = cached(Path::new(directory), ByteCount::mib(1));
    for _ in 0..rounds.parse().expect("a number") {
        let source = block_on(open_source(&source, &store)).expect("it opens");
        let (found, error) = block_on(texts(&source));
        assert!(error.is_none() && found.len() == 6 * 3000, "{error:?}");
    }
}

fn start(directory: &Path, rounds: usize, source: &SourceConfig) -> Child {
    let orders = format!("{}\n{rounds}\n{}", directory.display(), source.paths.join("\n"));
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "cache::child", "--ignored"]).env(CHILD, orders);
    command.stdout(std::process::Stdio::null()).spawn().expect("it starts")
}

#[test]
fn processes_share_it_and_may_be_killed_at_any_moment() {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let directory = tempfile::tempdir().expect("a directory");
    let limit = ByteCount::mib(1);
    let files = files(&[3000; 6]);
    let server = serve(&files);
    let source = remote(&server, &files);
    let mut honest: Vec<Child> = (0..2).map(|_| start(directory.path(), 3, &source)).collect();
    let mut most = 0;
    for _ in 0..8 {
        let mut victim = start(directory.path(), 100, &source);
        let random =
            SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let time = Duration::from_millis(60 + (random >> 33) % 300);
        let began = Instant::now();
        while began.elapsed() < time {
            most = most.max(size(directory.path()));
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(Pid::from_raw(victim.id() as i32), Signal::SIGKILL).expect("it is killed");
        victim.wait().expect("it ends");
    }
    for child in &mut honest {
        let status = wait_for("the end of a child that nobody kills", || {
            most = most.max(size(directory.path()));
            child.try_wait().expect("it can be asked")
        });
        assert!(status.success());
    }
    assert!(most > limit.0 / 2 && most <= limit.0, "{most}");
    // What the kills left is whole, or not there.
    for path in entries(directory.path()).0 {
        let bytes = fs::read(&path).expect("an entry");
        let checksum = twox_hash::XxHash3_64::oneshot(&bytes[8..]).to_le_bytes();
        assert_eq!(bytes[..8], checksum, "{}", path.display());
    }
    let store = cached(directory.path(), limit);
    read(&server, &source, &store, &all_lines(&files));
}
