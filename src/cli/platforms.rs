//! `hermesctl platforms`.

use super::CliError;
use super::backend::Backend;
use super::output::Output;
use crate::protocol::PlatformView;

pub(super) async fn run(backend: &dyn Backend, out: &Output) -> Result<(), CliError> {
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
