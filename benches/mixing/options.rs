//! What the command line asks for.

use millstream::config::ShuffleWindow;

use super::corpus::Case;

/// Bytes of a corpus.
const BYTES: usize = 60 << 20;
const TEST_BYTES: usize = 1 << 20;

pub(crate) struct Options {
    pub(crate) cases: Vec<Case>,
    pub(crate) lanes: Vec<usize>,
    pub(crate) windows: Vec<ShuffleWindow>,
    /// The most batches that are read of each.
    pub(crate) batches: u64,
    /// `source.split` where lanes are set; none to leave it alone.
    pub(crate) split: Option<String>,
    pub(crate) bytes: usize,
}

impl Options {
    pub(crate) fn parse() -> Result<Self, String> {
        // Cargo says `--bench` where it measures; where it only tries out, it does not, or we are told `--test`.
        let has = |argument: &str| std::env::args().any(|given| given == argument);
        let is_trial = !has("--bench") || has("--test");
        let mut options = Self {
            cases: Case::ALL.to_vec(),
            lanes: if is_trial { vec![16] } else { vec![1, 16] },
            windows: if is_trial {
                vec![64.into()]
            } else {
                vec![64.into(), 2048.into(), ShuffleWindow::All]
            },
            batches: 6000,
            split: Some(if is_trial { "64KiB" } else { "1MiB" }.to_owned()),
            bytes: if is_trial { TEST_BYTES } else { BYTES },
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} lacks its value"));
            match argument.as_str() {
                "--bench" | "--test" => {}
                "--case" => {
                    options.cases = value()?.split(',').map(Case::parse).collect::<Result<_, _>>()?;
                }
                "--lanes" => options.lanes = value()?.split(',').map(number).collect::<Result<_, _>>()?,
                "--windows" => options.windows = value()?.split(',').map(window).collect::<Result<_, _>>()?,
                "--batches" => options.batches = number(&value()?)? as u64,
                "--split" => options.split = Some(value()?).filter(|split| split != "auto"),
                "--mb" => options.bytes = number(&value()?)? << 20,
                other => return Err(format!("unknown option {other:?}")),
            }
        }
        Ok(options)
    }
}

/// A number of documents, or `all`.
fn window(text: &str) -> Result<ShuffleWindow, String> {
    if text == "all" { Ok(ShuffleWindow::All) } else { number(text).map(ShuffleWindow::Fixed) }
}

fn number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above zero")),
    }
}
