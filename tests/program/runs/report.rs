//! `millstream report`: the table, the lines of JSON and the page.

use std::io::Write;

use super::*;

/// What would end a script, or begin an element, if it was not escaped.
const HOSTILE: &str = "</script><img src=x onerror=\"alert('&')\">";

impl Project {
    /// The page of these runs.
    fn page(&self, runs: &[&str]) -> String {
        self.succeed(&[&["report"], runs, &["--html", "report.html"]].concat());
        std::fs::read_to_string(self.path("report.html")).expect("a page")
    }

    fn output(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().expect("it runs");
        succeeded(&output);
        String::from_utf8(output.stdout).expect("text")
    }

    fn log(&self, run: &str, lines: &str) {
        let path = self.path(run).join("metrics.jsonl");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("metrics");
        file.write_all(lines.as_bytes()).expect("written");
    }
}

/// What the script of a page draws.
fn data(page: &str) -> Value {
    let (_, after) = page.split_once("id=\"data\">").expect("data");
    let (data, _) = after.split_once("</script>").expect("its end");
    serde_json::from_str(data).expect("JSON")
}

/// What the script draws for the chart with this title.
fn chart(page: &str, title: &str) -> Value {
    let (_, after) = body(page).split_once(&format!("<figcaption>{title}<")).expect("a chart");
    let (_, after) = after.split_once("data-chart=\"").expect("its number");
    let number: usize = after.split('"').next().and_then(|number| number.parse().ok()).expect("a number");
    data(page)["charts"][number].clone()
}

/// The page without its styles, its scripts and what they draw.
fn body(page: &str) -> &str {
    let (_, body) = page.split_once("<body>").expect("a body");
    body.split_once("<script").expect("a script").0
}

#[test]
fn runs_stand_side_by_side_in_a_terminal_and_as_lines_of_json() {
    let project = Project::trained();
    project.succeed(&["train", "run.toml", "--set", "train.out=other", "--set", "train.steps=10"]);
    let table = project.output(&["report", "run", "other/"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let [head, run, other, gap, ledger, ..] = &lines[..] else { panic!("{table}") };
    assert!(gap.is_empty() && ledger[..4] == ["run", "after", "20", "batches"], "{table}");
    assert_eq!(head[..5], ["run", "step", "tokens", "loss", "validation"]);
    assert_eq!(
        (run[..4].to_vec(), other[..3].to_vec()),
        (vec!["run", "20/20", "1.280", "k"], vec!["other", "10/10", "640"])
    );

    let printed = project.output(&["report", "run", "other", "--json"]);
    let figures: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let metrics = project.metrics("run");
    let last = |field: &str| metrics.iter().rev().map(|line| &line[field]).find(|value| value.is_number());
    assert_eq!((&figures[0]["run"], &figures[0]["step"]), (&Value::from("run"), &Value::from(20)));
    assert_eq!(Some(&figures[0]["loss"]), last("loss"));
    assert_eq!(Some(&figures[0]["validation_loss"]), last("validation_loss"));
    let rate = last("tokens").and_then(Value::as_f64).expect("tokens")
        / last("seconds").and_then(Value::as_f64).expect("time");
    assert!((figures[0]["tokens_per_second"].as_f64().expect("a rate") - rate).abs() < 1e-6 * rate);
    assert_eq!((&figures[1]["step"], &figures[1]["mfu"]), (&Value::from(10), &Value::Null));
    let ledger = &figures[0]["ledger"];
    assert_eq!((&ledger["batches"], &ledger["sources"][0]["learned"]), (&20.into(), &figures[0]["tokens"]));
    assert_eq!(figures[0].get("loss_by"), None);

    project.log(
        "run",
        concat!(
            r#"{"step":20,"loss":3.5,"loss_by":{"lang":{"en":{"loss":2.5,"tokens":4}}}}"#,
            "\n",
            r#"{"step":20,"loss":3.5,"loss_by":{"lang":{"en":{"loss":2.25,"tokens":4}}}}"#,
            "\n",
        ),
    );
    let table = project.output(&["report", "run", "other"]);
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert!(lines.any(|line| line == ["run", "lang", "en", "2.250", "-0.2500"]), "{table}");
    let figures = project.output(&["report", "run", "--json"]);
    let figures: Value = serde_json::from_str(&figures).expect("JSON");
    assert_eq!(figures["loss_by"]["lang"]["en"]["change"], -0.25);
}

#[test]
fn the_page_has_the_curves_samples_and_configs_of_all_runs_and_needs_nothing_else() {
    let project = Project::new();
    let on = ["--set", "train.sample_tokens=6", "--set", "train.prompt=file"];
    project.succeed(&[&["train", "run.toml"], &on[..]].concat());
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=24"]);
    project.succeed(&["train", "run.toml", "--set", "train.out=lower", "--set", "train.lr=5e-4"]);
    project.log("run", concat!(
        r#"{"step":24,"loss":3.5,"loss_by":{"source":{"code":{"loss":2.5,"tokens":4},"prose":{"loss":4.5,"tokens":4}}},"mfu":0.25,"flops_per_second":2e12}"#, "\n",
        r#"{"step":24,"validation_loss":3.25,"bits_per_byte":1.5,"loss_by":{"source":{"code":{"loss":2.25,"tokens":4}}}}"#, "\n",
    ));
    let page = project.page(&["run", "lower"]);
    for title in [
        "Loss",
        "Validation, in bits per byte of text",
        "Learning rate",
        "Gradient norm, before clipping",
        "Training rate",
        "Time spent waiting for data",
        "Memory",
        "Arithmetic",
        "Share of the device&#39;s peak (MFU)",
        "Loss of source code",
        "Loss of source prose",
        "Stage source",
        "Stage tokenize",
        "Stage prefetch",
    ] {
        // Memory is told on Linux only.
        assert!(title == "Memory" || body(&page).contains(&format!("<figcaption>{title}<")), "{title}");
    }
    // The first run's samples, with the prompt; its settings, and the config that they gave.
    assert!(body(&page).contains("after step 20</h3><pre><b>file</b>"), "{}", body(&page));
    assert!(body(&page).contains("after step 24</h3><pre><b>file</b>"));
    assert!(body(&page).contains("<p>from step 20 on: <code>train.steps=24</code></p>"));
    assert!(body(&page).contains("steps = 24\n"));
    assert!(body(&page).contains("<tr><th>train.lr</th><td>0.001</td><td>0.0005</td></tr>"));
    assert!(!body(&page).contains("<th>train.out</th>"), "all runs differ in it");
    // Axes: where they begin, and how much one is.
    for (title, unit, one, zero) in [
        ("Loss", "nats per token", 1.0, false),
        ("Arithmetic", "TFLOP/s", 1e12, true),
        ("Share of the device&#39;s peak (MFU)", "%", 0.01, true),
    ] {
        let chart = chart(&page, title);
        assert_eq!((chart["unit"].as_str(), chart["one"].as_f64()), (Some(unit), Some(one)), "{title}");
        assert_eq!(chart["zero"], zero, "{title}");
    }
    // Each number of the last lines is on its chart.
    for (title, number) in [
        ("Loss", 3.25),
        ("Validation, in bits per byte of text", 1.5),
        ("Arithmetic", 2e12),
        ("Share of the device&#39;s peak (MFU)", 0.25),
        ("Loss of source code", 2.25),
        ("Loss of source prose", 4.5),
    ] {
        let curves = chart(&page, title)["curves"].as_array().expect("curves").clone();
        let of_run = curves.iter().rfind(|curve| curve["run"] == 0).expect("a curve");
        let last = of_run["points"].as_array().and_then(|points| points.last()).expect("a point");
        assert_eq!(last[1], number, "{title}");
    }
    let labels = |title: &str| -> Vec<String> {
        let curves = chart(&page, title)["curves"].as_array().expect("curves").clone();
        curves.iter().map(|curve| format!("{} {}", curve["run"], curve["label"])).collect()
    };
    let of_both = |one: &str, other: &str| {
        ["0", "1"]
            .iter()
            .flat_map(|run| [one, other].map(|label| format!("{run} {label:?}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(labels("Loss"), of_both("training", "validation"));
    assert_eq!(labels("Stage prefetch"), of_both("busy", "queue full"));
    let data = data(&page);
    let runs: Vec<&str> = data["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(runs, ["run", "lower"]);
    let curves = data["charts"][0]["curves"].as_array().expect("curves");
    assert_eq!(curves.len(), 4, "training and validation of both");
    let losses = project.losses("lower");
    let points = curves[2]["points"].as_array().expect("points");
    assert_eq!(points.len(), losses.len());
    for (point, (step, loss)) in points.iter().zip(&losses) {
        let loss: f64 = loss.parse().expect("a number");
        assert_eq!(point[0].as_u64(), Some(*step));
        assert!((point[1].as_f64().expect("a loss") - loss).abs() < 1e-3 * loss);
    }
    // Nothing is loaded from elsewhere.
    for outside in ["http:", "https:", "src=", "href=", "url(\"", "@import", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_setting_that_is_given_again_at_its_step_is_shown_once() {
    let project = Project::trained();
    for setting in ["train.lr=5e-4", "train.lr=6e-4"] {
        project.succeed(&["train", "--resume", "run", "--set", setting]);
    }
    project.succeed(&["train", "--resume", "run", "--set", "train.steps=24"]);
    project.succeed(&["train", "--resume", "run", "--set", "train.lr=7e-4"]);
    let page = project.page(&["run"]);
    let (_, configs) = body(&page).split_once("<h2>Configs</h2>").expect("configs");
    let (settings, _) = configs.split_once("<pre>").expect("a config");
    let shown: Vec<&str> = settings.split("<p>").skip(1).map(|line| line.trim_end()).collect();
    assert_eq!(
        shown,
        [
            "from step 20 on: <code>train.lr=0.0006</code></p>",
            "from step 20 on: <code>train.steps=24</code></p>",
            "from step 24 on: <code>train.lr=0.0007</code></p>",
        ]
    );
}

#[test]
fn nothing_that_comes_from_files_is_more_than_text() {
    let project = Project::trained();
    let name = HOSTILE.replace('/', ":");
    copy(&project.path("run"), &project.path(&name));
    let line = serde_json::json!({
        "step": 20,
        "loss": 1.0,
        "loss_by": { HOSTILE: { HOSTILE: { "loss": 1.0, "tokens": 1 } } },
        "stages": { HOSTILE: { "busy": 0.5 } },
    });
    project.log(&name, &format!("{line}\n"));
    let sample = serde_json::json!({ "step": 20, "prompt": HOSTILE, "text": HOSTILE });
    std::fs::write(project.path(&name).join("samples.jsonl"), format!("{sample}\n")).expect("written");
    let settings = serde_json::json!({ "step": 20, "batch": 20, "set": [format!("train.prompt={HOSTILE}")] });
    std::fs::write(project.path(&name).join("settings.jsonl"), format!("{settings}\n")).expect("written");
    let page = project.page(&["run", &name]);
    assert!(!page.contains("<img"), "{}", body(&page));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(
        body(&page).contains("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;&amp;&#39;)&quot;&gt;")
    );
    assert_eq!(data(&page)["runs"][1]["name"], name.as_str());
}

#[test]
fn a_million_lines_make_a_small_page_that_keeps_the_extremes() {
    let project = Project::trained();
    let mut text = String::new();
    for step in 1..=1_000_000 {
        let loss = match step {
            123_456 => 99.0,
            654_321 => -7.0,
            step => 2.0 + f64::from(step % 10) / 10.0,
        };
        text.push_str(&format!(
            "{{\"step\":{step},\"loss\":{loss},\"lr\":0.001,\"tokens_per_second\":{}}}\n",
            1000 + step % 100
        ));
    }
    std::fs::write(project.path("run/metrics.jsonl"), text).expect("written");
    let page = project.page(&["run"]);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    let data = data(&page);
    let points = data["charts"][0]["curves"][0]["points"].as_array().expect("points");
    for extreme in [serde_json::json!([123_456, 99.0]), serde_json::json!([654_321, -7.0])] {
        assert!(points.contains(&extreme), "{extreme}");
    }
    assert_eq!((&points[0][0], &points[points.len() - 1][0]), (&Value::from(1), &Value::from(1_000_000)));
    let smoothed =
        |title: &str| !chart(&page, title)["curves"][0]["smooth"].as_array().expect("points").is_empty();
    assert!(smoothed("Loss") && smoothed("Training rate") && !smoothed("Learning rate"));
}

#[test]
fn many_long_curves_are_shortened_together() {
    let project = Project::trained();
    let mut text = String::new();
    for step in 1..=600 {
        let stages: Vec<String> = (0..100)
            .map(|stage| format!("\"stage{stage}\":{{\"busy\":0.{step},\"queue\":0.{stage}{step}}}"))
            .collect();
        text.push_str(&format!("{{\"step\":{step},\"stages\":{{{}}}}}\n", stages.join(",")));
    }
    std::fs::write(project.path("run/metrics.jsonl"), text).expect("written");
    let page = project.page(&["run"]);
    let data = data(&page);
    let charts = data["charts"].as_array().expect("charts");
    let curves: Vec<&Value> =
        charts.iter().flat_map(|chart| chart["curves"].as_array().expect("curves")).collect();
    let points = |curve: &&Value| curve["points"].as_array().expect("points").len();
    let all: usize = curves.iter().map(points).sum();
    assert_eq!(curves.len(), 200);
    // The extremes of 48 Ki parts, and the ends of each curve.
    assert!(all > 16 << 10 && all <= (96 << 10) + 2 * 200, "{all} points");
}

#[test]
fn a_run_that_goes_on_is_shown_as_far_as_it_is() {
    let project = Project::new();
    let mut running = project.start(&["train", "run.toml", "--set", "train.steps=1000000"]);
    running.step(12);
    let table = project.output(&["report", "run"]);
    assert!(table.contains("/1000000 "), "{table}");
    running.send(Signal::SIGKILL);
    running.end();
    // The line that was under way when it was killed.
    project.log("run", "{\"step\":13,\"lo");
    project.output(&["report", "run"]);
    // Before its first line it has no metrics.
    std::fs::remove_file(project.path("run/metrics.jsonl")).expect("removed");
    assert!(project.output(&["report", "run"]).contains("0/1000000"));
    assert!(project.page(&["run"]).contains("Nothing is logged yet."));
}

#[test]
fn damaged_lines_are_named_and_the_page_that_was_there_stays() {
    let project = Project::trained();
    let page = project.page(&["run"]);
    let metrics = std::fs::read_to_string(project.path("run/metrics.jsonl")).expect("metrics");
    for (line, problem) in [
        ("{\"step\":21,\"loss\":1", "EOF while parsing"),
        ("{\"loss\":1}", "it has no step; "),
        ("{\"step\":21,\"lr\":\"low\"}", "its lr is not a number; "),
    ] {
        let damaged = format!("{metrics}{line}\n{{\"step\":22}}\n");
        std::fs::write(project.path("run/metrics.jsonl"), damaged).expect("written");
        let said = project.fail(&["report", "run", "--html", "report.html"]);
        let whole = format!("run/metrics.jsonl:23: this is not a line of a run's metrics: {problem}");
        assert!(said.contains(&whole), "{said}");
        assert!(said.contains("correct the line, or remove it"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(project.path("report.html")).expect("a page"), page);
    let said = project.fail(&["report", "corpus"]);
    assert!(said.contains("corpus: this is not a run's directory"), "{said}");
    let said = project.fail(&["report", "run", "--html", "corpus"]);
    assert!(said.contains("it is a directory"), "{said}");

    let project = Project::trained();
    std::fs::write(project.path("run/samples.jsonl"), "{\"step\":1}\n").expect("written");
    let said = project.fail(&["report", "run"]);
    assert!(said.contains("run/samples.jsonl:1: this is not a sample: missing field"), "{said}");
}

#[test]
fn the_last_step_of_data_that_ends_is_logged() {
    let project = Project::new();
    let ended = ["train", "run.toml", "--set", "pipeline.epochs=1", "--set", "train.steps=10000"];
    let said = project.succeed(&[&ended[..], &["--set", "train.log_every=7"]].concat());
    let (_, rest) = said.split_once("the data ended after step ").unwrap_or_else(|| panic!("{said}"));
    let last: u64 = rest.split(' ').next().and_then(|step| step.parse().ok()).expect("a step");
    assert!(last > 7 && !last.is_multiple_of(7), "{last}");
    let steps: Vec<u64> = project.losses("run").into_iter().map(|(step, _)| step).collect();
    let expected: Vec<u64> = (7..last).step_by(7).chain([last]).collect();
    assert_eq!(steps, expected);
    let state = Checkpoint::latest(&project.path("run/checkpoints")).expect("read").expect("a checkpoint");
    let figures = project.program(&["report", "run", "--json"]).output().expect("it runs");
    let figures: Value = serde_json::from_slice(&figures.stdout).expect("JSON");
    assert_eq!([&figures["step"], &figures["tokens"]], [last, state.state().tokens], "{figures}");
}
