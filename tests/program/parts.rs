//! Shards that several processes make, each a part of them.

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::program::{failure, json, millstream, run, said, start, text as text_of};
use crate::support::moto::Moto;
use crate::support::proxy::Proxy;
use crate::support::server::Request;
use crate::support::wait::wait_for;

/// How many parts there are.
const PARTS: usize = 8;

/// A corpus of several segments, and its config.
struct Case {
    directory: TempDir,
}

impl Case {
    fn new() -> Self {
        let case = Self { directory: tempfile::tempdir().expect("a directory") };
        // Some 44 MB: segments are made of 4 MiB of text or more.
        for (name, lines) in [("a", 100_000), ("b", 330_000), ("c", 10)] {
            let line = |n: usize| format!("{n} of {name}: {}\n", "words ".repeat(n % 31));
            let text: String = (0..lines).map(line).collect();
            std::fs::write(case.path(&format!("{name}.txt")), text).expect("a file");
        }
        let config = format!(
            "[[source]]\npaths = [{:?}]\nsplit = \"1MiB\"\n[tokenizer]\nkind = \"bytes\"\n\
             [pipeline]\nseq_len = 256\nbatch_size = 8\nlanes = 2\nworkers = 1\n",
            case.path("*.txt").display().to_string()
        );
        std::fs::write(case.path("text.toml"), config).expect("a file");
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a config that reads the shards at a place, and returns its path.
    fn shards(&self, name: &str, place: &str) -> String {
        let text = format!(
            "[[source]]\nkind = \"shards\"\npaths = [{place:?}]\n[tokenizer]\nkind = \"bytes\"\n\
             [pipeline]\nseq_len = 256\nbatch_size = 8\nlanes = 2\n"
        );
        std::fs::write(self.path(name), text).expect("a file");
        self.name(name)
    }
}

/// All files of a directory, but for locks.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap_or_default())
    };
    entries.map(file).filter(|(name, _)| name != ".lock").collect()
}

fn segments(directory: &Path) -> usize {
    files(directory).keys().filter(|name| name.ends_with(".tokens")).count()
}

#[test]
fn parts_that_are_killed_and_go_on_make_what_one_process_makes() {
    let case = Case::new();
    let (config, whole, out) = (case.name("text.toml"), case.name("whole"), case.name("out"));
    json(&["prepare", &config, "-o", &whole]);
    let expected = files(&case.path("whole"));
    assert!(segments(&case.path("whole")) > PARTS, "each part has a segment");

    let parts: Vec<String> = (1..=PARTS).map(|part| format!("{part}/{PARTS}")).collect();
    let begin = |part: &String| start(&["prepare", &config, "-o", &out, "--part", part, "--json"]);
    // All at once, and killed at some moment: the first at once, and each of the others when there is more than before,
    // unless it is done by then.
    let mut victims: Vec<Child> = parts.iter().map(begin).collect();
    for (nth, mut victim) in victims.drain(..).enumerate() {
        let before = segments(&case.path("out"));
        wait_for("something more", || {
            let has_ended = victim.try_wait().expect("it can be asked").is_some();
            (nth == 0 || segments(&case.path("out")) > before || has_ended).then_some(())
        });
        thread::sleep(Duration::from_millis(3 * nth as u64));
        // One that is done is killed in vain.
        let _ = victim.kill();
        victim.wait().expect("it ends");
    }
    // Two of each part: one of them is refused, unless the other is done by then.
    let children: Vec<Child> = parts.iter().chain(&parts).map(begin).collect();
    let mut done = 0;
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        let said = said(&output);
        done += usize::from(output.status.success());
        assert!(output.status.success() || said.contains("writes token shards there"), "{said}");
    }
    assert!(done >= PARTS);
    assert!(files(&case.path("out")) == expected, "the files differ: {:?}", files(&case.path("out")).keys());
    let status = text_of(&["prepare", &config, "-o", &out, "--status"]);
    let count = segments(&case.path("out"));
    assert_eq!(status.trim_end(), format!("{out}: {count} of {count} segments are there"));
    let again = json(&["prepare", &config, "-o", &out, "--verify"]);
    assert_eq!((&again["documents"], &again["verified"]), (&0.into(), &true.into()));
}

#[test]
fn parts_in_a_faulty_store_are_killed_and_go_on_to_what_one_process_makes() {
    let name = "parts::parts_in_a_faulty_store_are_killed_and_go_on_to_what_one_process_makes";
    let Some(moto) = Moto::start_or_skip(name) else { return };
    moto.put("/tokens", b"");
    // A segment takes some 8 MB, so that some of what is sent breaks off, and most of it arrives in the end.
    let proxy = Proxy::new(moto.port(), 40 << 20);
    let endpoint = proxy.endpoint();
    let case = Case::new();
    let (config, whole, far) = (case.name("text.toml"), case.name("whole"), "s3://tokens/a/b".to_owned());
    json(&["prepare", &config, "-o", &whole]);
    let expected = files(&case.path("whole"));

    let near = |arguments: &[&str]| {
        let mut command = millstream(arguments);
        command.envs(Moto::environment(&endpoint)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let hasty = ["--set", "store.backoff=0.01", "--set", "store.backoff_max=0.1"];
    let prepare = |part: usize| {
        let part = format!("{part}/{PARTS}");
        let arguments = [&["prepare", &config, "-o", &far, "--part", &part, "--json"][..], &hasty].concat();
        near(&arguments).spawn().expect("it starts")
    };
    let is_there = |segment: &str| moto.get(&format!("/tokens/a/b/{segment}")).is_some();
    let segments: Vec<&String> = expected.keys().filter(|name| name.ends_with(".tokens")).collect();
    let count = || segments.iter().filter(|segment| is_there(segment)).count();
    let mut victims: Vec<Child> = (1..=PARTS).map(prepare).collect();
    // Killed at some moment: the first when a segment has arrived, and the others soon after.
    wait_for("a segment", || (count() > 0).then_some(()));
    for (nth, victim) in victims.iter_mut().enumerate() {
        thread::sleep(Duration::from_millis(11 * nth as u64));
        let _ = victim.kill();
        victim.wait().expect("it ends");
    }
    let children: Vec<Child> = (1..=PARTS).map(prepare).collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", said(&output));
    }
    assert!(proxy.broken() > 0);
    proxy.mend();
    for (name, bytes) in &expected {
        assert!(moto.get(&format!("/tokens/a/b/{name}")).as_ref() == Some(bytes), "{name}");
    }
    let status = near(&["prepare", &config, "-o", &far, "--status"]).output().expect("it runs");
    let (all, told) = (segments.len(), String::from_utf8_lossy(&status.stdout).into_owned());
    assert_eq!(told.trim_end(), format!("{far}: {all} of {all} segments are there"));
    // A kill just before the list was written leaves all segments, and no reader knows them.
    moto.delete("/tokens/a/b/segments.json");
    let ask = |arguments: &[&str]| near(arguments).output().expect("it runs");
    let output = ask(&["prepare", &config, "-o", &far, "--status"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let once_more = "and not their list: prepare any part once more";
    assert!(output.status.code() == Some(1) && told.contains(once_more), "{told}");
    let output = ask(&["digest", &case.shards("far.toml", &far)]);
    assert!(said(&output).contains("all splits are there, and not their list"), "{}", said(&output));
    // A segment that was replaced is made anew, and one of other tokens is refused.
    let prepare = || ask(&[&["prepare", &config, "-o", &far, "--json"][..], &hasty].concat());
    assert!(prepare().status.success());
    let first = format!("/tokens/a/b/{}", segments[0]);
    moto.put(&first, b"short");
    let output = ask(&["digest", &case.shards("far.toml", &far)]);
    assert!(said(&output).contains("it has 5 bytes, and the list of segments says"), "{}", said(&output));
    let repaired: serde_json::Value = serde_json::from_slice(&prepare().stdout).expect("an object");
    assert!(
        repaired["documents"].as_u64() > Some(0) && moto.get(&first).as_ref() == Some(&expected[segments[0]])
    );
    let mut foreign = expected[segments[0]].clone();
    foreign[20] ^= 1;
    moto.put(&first, &foreign);
    moto.delete("/tokens/a/b/segments.json");
    let output = prepare();
    assert!(
        !output.status.success() && said(&output).contains("of another corpus or tokenizer"),
        "{}",
        said(&output)
    );
    moto.put(&first, &expected[segments[0]]);
    let verified = near(&["prepare", &config, "-o", &far, "--verify", "--json"]).output().expect("it runs");
    let verified: serde_json::Value = serde_json::from_slice(&verified.stdout).expect("an object");
    assert_eq!((&verified["documents"], &verified["verified"]), (&0.into(), &true.into()));

    // And its batches are those of the local shards.
    let digest = |config: &str| {
        let output =
            near(&[&["digest", config, "-n", "300"][..], &hasty].concat()).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    };
    assert_eq!(digest(&case.shards("far.toml", &far)), digest(&case.shards("near.toml", &whole)));
}

/// Answers as an S3 server that takes no segment of tokens: neither a small one, nor what ends one of several parts.
fn refuses_segments(stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = Request::read(&mut reader)? {
        let length =
            request.headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        let is_segment = request.path.ends_with(".tokens");
        let (status, body) = match request.method.as_str() {
            "POST" if request.query.starts_with("uploads") => (
                "200 OK",
                "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>",
            ),
            "PUT" if is_segment && request.query.contains("partNumber") => ("200 OK", ""),
            "PUT" | "POST" if is_segment => ("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>"),
            "GET" if request.path.starts_with("/closed") => ("403 Forbidden", ""),
            "GET" if request.path.starts_with("/elsewhere") => ("400 Bad Request", ""),
            "GET" if request.query.contains("list-type") => {
                ("200 OK", "<ListBucketResult></ListBucketResult>")
            }
            "GET" | "HEAD" => ("404 Not Found", ""),
            _ => ("200 OK", ""),
        };
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\netag: \"one\"\r\n\r\n", body.len());
        (&*stream).write_all(format!("{head}{body}").as_bytes())?;
    }
    Ok(())
}

#[test]
fn a_store_that_refuses_a_segment_is_named() {
    let case = Case::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The program may be gone.
            thread::spawn(move || drop(refuses_segments(&stream)));
        }
    });
    // A short segment, and one that is sent in parts.
    for name in ["c.txt", "b.txt"] {
        let paths = format!("source.0.paths=[{:?}]", case.name(name));
        let prepare = [
            "prepare",
            &case.name("text.toml"),
            "-o",
            "s3://tokens/a",
            "--set",
            &paths,
            "--set",
            "pipeline.lanes=1",
        ];
        let output = millstream(&prepare).envs(Moto::environment(&endpoint)).output().expect("it runs");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(".tokens") && said.contains("403") && !said.contains("panicked"), "{said}");
    }
    for (bucket, remedy) in [("closed", "AWS_ACCESS_KEY_ID"), ("elsewhere", "set AWS_REGION")] {
        let paths = format!("source.0.paths=[\"s3://{bucket}/*.txt\"]");
        let check = ["check", &case.name("text.toml"), "--set", &paths];
        let output = millstream(&check).envs(Moto::environment(&endpoint)).output().expect("it runs");
        assert!(said(&output).contains(remedy), "{}", said(&output));
    }
}

#[test]
fn whoever_finds_parts_missing_names_them() {
    let case = Case::new();
    let (config, out) = (case.name("text.toml"), case.name("out"));
    let shards = case.shards("shards.toml", &out);
    let status = |json: &[&str]| {
        let output = run(&[&["prepare", &config, "-o", &out, "--status"], json].concat());
        (output.status.code(), String::from_utf8(output.stdout).expect("text").trim_end().to_owned())
    };
    assert_eq!(status(&[]), (Some(1), format!("{out}: nothing is there yet")));
    // A launcher says which part it is, and an empty variable nothing.
    let launched = |variables: &[(&str, &str)]| {
        let mut command = millstream(&["prepare", &config, "-o", &out]);
        let output = command.envs(variables.iter().copied()).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let first = launched(&[("RANK", "0"), ("WORLD_SIZE", "5")]);
    assert!(
        first.contains(": part 1 of 5, ") && first.contains(" of other parts are not there yet"),
        "{first}"
    );
    let array = [
        ("SLURM_ARRAY_TASK_ID", "3"),
        ("SLURM_ARRAY_TASK_MIN", "1"),
        ("SLURM_ARRAY_TASK_MAX", "5"),
        ("SLURM_ARRAY_TASK_COUNT", "5"),
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "1"),
        ("WORLD_SIZE", ""),
    ];
    assert!(launched(&array).contains(": part 3 of 5, "));
    let (code, told) = status(&[]);
    assert!(
        code == Some(1) && told.ends_with(" segments are there; 2 of 5 parts are done, and not 2, 4-5"),
        "{told}"
    );
    let (_, told) = status(&["--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let part = |part: usize| &told["parts"][part - 1];
    assert_eq!((&part(4)["part"], &part(4)["segments"]), (&4.into(), &0.into()));
    assert_eq!(part(3)["segments"], part(3)["of"]);

    let (_, error) = failure(&["digest", &shards]);
    let missing = "and of 5 parts these are missing: 2, 4-5; prepare each of them, such as part 2 of 5";
    assert!(error.contains(missing), "{error}");
    for part in ["2/5", "4/5", "5/5"] {
        json(&["prepare", &config, "-o", &out, "--part", part]);
    }
    json(&["digest", &shards]);
}

#[test]
fn what_is_no_part_is_refused() {
    for (part, why) in [
        ("3", "\"3\" is not a part: write the third of a hundred as 3/100"),
        ("a/3", "\"a/3\" is not a part"),
        ("0/3", "there is no part 0 of 3: parts count from 1 to 3"),
        ("4/3", "there is no part 4 of 3"),
        ("3/0", "3/0 is not a part: there must be at least one part"),
    ] {
        let (_, error) = failure(&["prepare", "configs/tiny.toml", "-o", "nowhere", "--part", part]);
        assert!(error.contains(why), "{error}");
    }
    let refused = |variables: &[(&str, &str)]| {
        let mut command = millstream(&["prepare", "configs/tiny.toml", "-o", "nowhere"]);
        let output = command.envs(variables.iter().copied()).output().expect("it runs");
        assert!(!output.status.success());
        said(&output)
    };
    // Of an array that was submitted again for two of its tasks, nothing says how many there were.
    let some = [
        ("SLURM_ARRAY_TASK_ID", "7"),
        ("SLURM_ARRAY_TASK_MIN", "3"),
        ("SLURM_ARRAY_TASK_MAX", "7"),
        ("SLURM_ARRAY_TASK_COUNT", "2"),
    ];
    let error = refused(&some);
    assert!(error.contains("SLURM_ARRAY_TASK_ID") && error.contains("say which part this is"), "{error}");
    assert!(error.ends_with(" prepare configs/tiny.toml -o nowhere --part 3/100"), "{error}");
    let error = refused(&[("JOB_COMPLETION_INDEX", "3")]);
    assert!(error.contains("WORLD_SIZE is not set; say which part this is"), "{error}");
    assert!(!crate::support::root().join("nowhere").exists());
}
