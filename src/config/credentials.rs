//! Reads the service manager's credentials from `$CREDENTIALS_DIRECTORY`: one file per setting.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use super::ConfigError;
use super::layers::{Layers, Origin};
use super::settings::Setting;
use super::value::Raw;

pub(super) const DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

pub(super) fn read(
    environment: &BTreeMap<String, String>,
    layers: &mut Layers,
) -> Result<(), ConfigError> {
    let Some(directory) = environment
        .get(DIRECTORY)
        .filter(|path| !path.is_empty())
        .map(Path::new)
    else {
        return Ok(());
    };
    for setting in layers.schema.settings() {
        for path in names(setting).map(|name| directory.join(name)) {
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(source) => return Err(ConfigError::Unreadable { path, source }),
            };
            // Editors and `echo` end a file with a line break, which is not part of the token.
            let text = text.trim();
            if !text.is_empty() {
                let raw = Raw::Text(text.to_owned());
                layers.add(&setting.key, raw, Origin::Credential { path });
            }
        }
    }
    Ok(())
}

/// The file names of a setting: its key, with or without `platforms.`, and its names in the environment. Each may begin
/// with `hermesd_`, which systemd adds for `LoadCredential=hermesd:DIRECTORY`, or with `hermesd.`, which marks our
/// credentials of a machine (`ImportCredential=hermesd.*`).
fn names(setting: &Setting) -> impl Iterator<Item = String> {
    let key = setting.key.as_str();
    let short = key.strip_prefix("platforms.");
    let plain = [Some(key), short].into_iter().flatten().map(str::to_owned);
    let plain = plain.chain([setting.own_env()]).chain(setting.env.clone());
    plain.flat_map(|name| {
        let (file, machine) = (format!("hermesd_{name}"), format!("hermesd.{name}"));
        [name, file, machine]
    })
}
