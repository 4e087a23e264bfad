//! stub
use clap::Args;
use millstream::Result;
pub(super) const HELP: &str = "";
#[derive(Debug, Args)]
pub(super) struct GenerateArgs {}
pub(super) async fn run(_args: GenerateArgs, _json: bool) -> Result<()> {
    Ok(())
}
