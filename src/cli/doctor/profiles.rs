//! Checks the other profiles, where a handoff may wait unnoticed.

use std::path::Path;

use crate::client::Client;
use crate::config::{Config, paths};
use crate::home_files::{live_gateway, recorded_socket};
use crate::platform::Finding;
use crate::store::count_pending;

/// Finds other profiles with handoffs that no daemon and no gateway will claim.
pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let root = paths::root_of(&config.home);
    let mut found = Vec::new();
    for name in paths::profiles(&root) {
        let home = paths::home_of_profile(&root, &name);
        if home == config.home || !home.join("state.db").exists() {
            continue;
        }
        // `hermesctl doctor --profile` reports a database that cannot be read.
        let pending = count_pending(&home).unwrap_or_default();
        if pending > 0 && !is_served(&home).await {
            found.push(Finding::doubtful(
                format!("profile {name}"),
                format!("{pending} handoffs wait in {}, and no daemon serves it", home.display()),
                format!(
                    "start `hermesd --profile {name}`, or `systemctl --user enable --now hermesd@{name}`"
                ),
            ));
        }
    }
    found
}

async fn is_served(home: &Path) -> bool {
    if live_gateway(home).is_some() {
        return true;
    }
    let Some(socket) = recorded_socket(home) else {
        return false;
    };
    let answered = Client::connect(&socket).await;
    answered.is_ok_and(|client| client.server().home == home.display().to_string())
}
