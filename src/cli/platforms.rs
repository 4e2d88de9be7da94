//! Invoked by `hermesctl platforms`.
//!
//! Lists the platforms, with their state and their home channel.

use super::CliError;
use super::backend::Target;
use super::output::Output;
use crate::protocol::PlatformView;

pub(super) async fn run(target: &Target, out: &Output) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    let platforms = backend.platforms().await?;
    out.value(&platforms)?;
    out.table(
        &["PLATFORM", "STATE", "HOME CHANNEL", "DETAIL"],
        &rows(platforms),
    )
}

pub(super) fn rows(platforms: Vec<PlatformView>) -> Vec<Vec<String>> {
    let row = |p: PlatformView| {
        vec![
            p.name,
            p.state,
            p.home_channel.unwrap_or_default(),
            p.detail.unwrap_or_default(),
        ]
    };
    platforms.into_iter().map(row).collect()
}
