//! stub
use clap::Args;
use millstream::Result;
use std::process::ExitCode;
pub(super) const HELP: &str = "";
#[derive(Debug, Args)]
pub(super) struct TrainArgs {}
pub(super) async fn run(_args: TrainArgs, _json: bool) -> Result<ExitCode> {
    let _ = (super::INTERRUPTED, super::progress::bar(1, 0), super::progress::say(""));
    Ok(ExitCode::SUCCESS)
}
