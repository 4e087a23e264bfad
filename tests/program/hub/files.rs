//! Files at a commit: what is read, and with how many requests.

use super::{STORIES, World, local, ordered, path, source, stories, write};
use crate::hub_server::Request;
use crate::program::said;

#[test]
fn files_of_the_hub_are_read_as_those_of_a_disk() {
    let (world, commit) = World::with_stories(3, 200);
    world.hub.set_page_size(2);
    let here = tempfile::tempdir().expect("a directory");
    write(here.path(), "", 3, 200);
    let expected = world.digest(&ordered(&local(here.path())), &[]);
    for revision in ["", "@main", &format!("@{commit}")] {
        assert_eq!(world.digest(&ordered(&source(revision)), &[]), expected, "{revision}");
    }
    let whole = "[[source]]\nkind = \"huggingface\"\nfield = \"text\"\nrepo = \"me/stories\"\n";
    assert_eq!(world.digest(&ordered(whole), &[]), expected);
    assert_eq!(world.hub.leaks(), 0);
}

#[test]
fn a_run_stays_at_its_commit() {
    let (world, first) = World::with_stories(2, 300);
    let config = ordered(&source(""));
    let cursor = world.home.path().join("cursor.json");
    let cursor = cursor.to_str().expect("UTF-8");
    let all = world.digest(&config, &["--cursor-at", "20", cursor]);
    let saved = std::fs::read_to_string(cursor).expect("a cursor");
    assert!(saved.contains(&first), "{saved}");
    let rest = world.digest(&config, &["--from", cursor]);
    let second = world.commit("another", 2, 300);
    assert_eq!(
        world.digest(&config, &["--from", cursor]),
        rest,
        "a resume goes on at the commit of its cursor"
    );
    let new = world.digest(&config, &[]);
    assert_ne!(new, all, "a new run begins at the branch's commit");
    assert_eq!(new, world.digest(&ordered(&source(&format!("@{second}"))), &[]));
    let at_first = ordered(&source(&format!("@{first}")));
    assert_eq!(all, world.digest(&at_first, &[]));
    assert_eq!(world.digest(&at_first, &["--from", cursor]), rest, "the same files by another name");
    // A cursor of other texts is refused, whatever the name.
    let at_second = ordered(&source(&format!("@{second}")));
    let failure = world.failure(&at_second, |command| {
        command.args(["--from", cursor]);
    });
    assert!(failure.contains("source.0.files"), "{failure}");
}

#[test]
fn a_tokenizer_stays_at_its_commit() {
    let (world, _) = World::with_stories(1, 300);
    let tokenizer = crate::support::root().join("tests/data/tokenizers/unigram.json");
    let tokenizer = std::fs::read(tokenizer).expect("a tokenizer");
    world.hub.commit("me/model", "main", &[("tokenizer.json", &tokenizer)]);
    let config = ordered(&source("")).replace("kind = \"bytes\"", "path = \"hf://me/model/tokenizer.json\"");
    let cursor = world.home.path().join("cursor.json");
    let cursor = cursor.to_str().expect("UTF-8");
    world.digest(&config, &["--cursor-at", "2", cursor]);
    let rest = world.digest(&config, &["--from", cursor]);
    world.hub.commit("me/model", "main", &[("notes.md", b"gone")]);
    assert_eq!(world.digest(&config, &["--from", cursor]), rest);
}

#[test]
fn a_file_is_looked_for_once_and_then_read_where_it_is() {
    let files = 8;
    let (world, _) = World::with_stories(files, 12_000);
    let shuffled = source("")
        + "\n[tokenizer]\nkind = \"bytes\"\n[pipeline]\nseq_len = 512\nbatch_size = 16\nepochs = 1\nlanes = 16\n";
    world.digest(&shuffled, &["--set", "store.block=64KiB"]);
    let requests = world.hub.requests();
    let ranges = requests.iter().filter(|request| request.is_cdn).count();
    assert!(ranges > 2 * files, "{ranges}");
    let most = ranges as f64 * 1.2 + 2.0 * files as f64;
    assert!(requests.len() as f64 <= most, "{} requests, {ranges} of them for ranges", requests.len());
    assert_eq!(resolved(&requests), files);
}

/// How often the Hub was asked where a file is.
fn resolved(requests: &[Request]) -> usize {
    requests.iter().filter(|request| !request.is_cdn && request.path.contains("/resolve/")).count()
}

#[test]
fn a_place_that_expires_is_asked_for_again() {
    let (world, _) = World::with_stories(2, 8_000);
    let config = ordered(&source(""));
    let expected = world.digest(&config, &["--set", "store.block=64KiB"]);
    world.hub.expire_after(3);
    world.hub.requests();
    assert_eq!(world.digest(&config, &["--set", "store.block=64KiB"]), expected);
    let requests = world.hub.requests();
    let (ranges, asked) = (requests.iter().filter(|request| request.is_cdn).count(), resolved(&requests));
    assert!(asked > 2 && asked <= ranges / 3, "{asked} of {ranges}");
}

#[test]
fn tokenizers_and_templates_come_from_the_hub() {
    let (world, _) = World::with_stories(1, 50);
    let tokenizer = crate::support::root().join("tests/data/tokenizers/unigram.json");
    let tokenizer = std::fs::read(tokenizer).expect("a tokenizer");
    let template =
        "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
    let chats = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";
    world.hub.commit(
        "me/model",
        "main",
        &[("tokenizer.json", &tokenizer), ("chat_template.jinja", template.as_bytes())],
    );
    world.hub.commit("datasets/me/chats", "main", &[("train.jsonl", chats.repeat(50).as_bytes())]);
    let with = |tokenizer: &str| {
        format!(
            "[[source]]\nkind = \"huggingface\"\nrepo = \"me/chats\"\ntask = \"chat\"\n[tokenizer]\npath = \"{tokenizer}\"\n\
             [pipeline]\nseq_len = 64\nbatch_size = 2\nepochs = 1\nlanes = 1\n"
        )
    };
    let here = tempfile::tempdir().expect("a directory");
    std::fs::write(here.path().join("tokenizer.json"), &tokenizer).expect("a file");
    std::fs::write(here.path().join("chat_template.jinja"), template).expect("a file");
    let expected = world.digest(&with(here.path().join("tokenizer.json").to_str().expect("UTF-8")), &[]);
    assert_eq!(world.digest(&with("hf://me/model/tokenizer.json"), &[]), expected);
    let failure = world.failure(&with("hf://me/model/tokeniser.json"), |_| ());
    assert!(
        failure.contains("hf://me/model/tokeniser.json") && failure.contains("it has tokenizer.json"),
        "{failure}"
    );
    // As Python notes it.
    let absent = world.cache().join("models--me--model/.no_exist");
    let commits: Vec<_> = std::fs::read_dir(absent).expect("a directory").flatten().collect();
    assert!(commits.len() == 1 && commits[0].path().join("tokeniser.json").is_file());
}

#[test]
fn token_shards_come_from_the_hub() {
    let (world, _) = World::with_stories(2, 300);
    let config = ordered(&source(""));
    let expected = world.digest(&config, &[]);
    let shards = world.home.path().join("shards");
    let arguments = ["prepare", &world.config(&config), "-o", shards.to_str().expect("UTF-8")];
    let output = world.command(&arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let mut files = Vec::new();
    let mut directories = vec![shards.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => directories.push(path),
                false => files.push(path),
            }
        }
    }
    let files: Vec<(String, Vec<u8>)> = files
        .iter()
        .map(|path| {
            let name = path.strip_prefix(&shards).expect("below").to_str().expect("UTF-8");
            (format!("shards/{name}"), std::fs::read(path).expect("a file"))
        })
        .collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    world.hub.commit("datasets/me/shards", "main", &files);
    let of_hub = "[[source]]\nkind = \"shards\"\npaths = [\"hf://datasets/me/shards/shards\"]\n";
    assert_eq!(world.digest(&ordered(of_hub), &[]), expected);
    let trees = std::fs::read_dir(world.cache().join("datasets--me--shards/trees")).expect("trees");
    let names: Vec<String> =
        trees.map(|tree| tree.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    assert!(
        names.iter().all(|name| name.len() == "0123456789012345678901234567890123456789.json".len()),
        "{names:?}"
    );
}

#[test]
fn branches_with_slashes_have_names_too() {
    let (world, _) = World::with_stories(2, 50);
    let expected = world.digest(&ordered(&source("")), &[]);
    world.commit("another", 1, 10);
    let files: Vec<(String, String)> = (0..2).map(|file| (path(file), stories("", file, 50))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (&**path, text.as_bytes())).collect();
    world.hub.commit(STORIES, "feature/x", &files);
    let whole = "[[source]]\nkind = \"huggingface\"\nfield = \"text\"\nrepo = \"me/stories\"\nrevision = \"feature/x\"\n";
    assert_eq!(world.digest(&ordered(whole), &[]), expected);
    assert_eq!(world.digest(&ordered(&source("@feature%2Fx")), &[]), expected);
    let failure = world.failure(&ordered(&source("@feature%2Fy")), |_| ());
    assert!(failure.contains("it has feature%2Fx, main"), "{failure}");
}

#[test]
fn a_name_that_cannot_be_read_is_an_error() {
    let world = World::new();
    world.hub.commit(
        STORIES,
        "main",
        &[("data/a.jsonl", b"{\"text\": \"a\"}\n"), ("data/b\tc.jsonl", b"{}\n")],
    );
    let failure = world.failure(&ordered(&source("")), |_| ());
    assert!(failure.contains("data/b\\tc.jsonl"), "{failure}");
}
