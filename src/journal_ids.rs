//! The ids of log entries that administrators may search for. They never change. `journalctl MESSAGE_ID=…` finds the
//! entries, and `journalctl -x` explains them with `packaging/catalog/hermesd.catalog`.
//!
//! A log entry has its id in the field `message_id`. At level info, such an entry becomes a notice in the journal, so
//! `journalctl -p notice` shows these and no other entries of level info.

pub const READY: &str = "be983a710e6e4ceb8e330143dc6c7518";
pub const STOPPING: &str = "4a5c31c0aecd4322b00e16d85e4752b2";
pub const CONFIG_RELOADED: &str = "6062f36e90d34c17a38cbc97161af4cf";
pub const CONFIG_REFUSED: &str = "b61a6e64e3bd48e497a5ce15136f0dda";
pub const PLATFORM_UP: &str = "e071943aa52f4bd7a38aed4a6ecb7c1e";
pub const PLATFORM_DEGRADED: &str = "12cd16e827bc45eab0ebe30c946c156a";
pub const PLATFORM_DOWN: &str = "1cf8fe4bf4f24a2fb7b077072a77ad00";
pub const HANDOFF_REQUESTED: &str = "29cbfd6322a743628db7000f0523a054";
pub const HANDOFF_COMPLETED: &str = "f0cb47e642b94581bd0f8d024d04b611";
pub const HANDOFF_FAILED: &str = "99cdc7dd328f4fb5b47c9e17aeb6b4dd";
pub const HANDOFF_RESUMED: &str = "7a52018fc6244626b0b8b3ab54c30e22";
pub const TURN_FAILED: &str = "adc0da0b39c744319c403a497fe30a89";
pub const REPLY_NOT_DELIVERED: &str = "f028ba723a1f4cbb8d02ee35605aa71a";
pub const REPLY_MAYBE_REPEATED: &str = "0f023faf258e4bac85567aebb3e9a72c";
pub const CHAT_ENDED: &str = "af3218fd7e65424d97d138b1451c3805";
pub const PAIRING_ASKED: &str = "00839ba6d248410abd5cc415f72cbff5";
pub const DATABASE_LOCKED: &str = "c0242cf1da4446c4acdda1dae2bf54da";
pub const DATABASE_FULL: &str = "7d88da4f85bf4607a084ab93019d2af6";
pub const INDEX_DAMAGED: &str = "ae61e040ba3e46a380374f0c3ccc5ad3";
pub const CJK_INDEX_OFF: &str = "03750169d8574d8ebd791a3cc31b47e7";
pub const AGENT_CRASHED: &str = "bc9355cd51304fa2914ebe9ac685f09b";
pub const GATEWAY_TOOK_OVER: &str = "3322e619c0aa4337a4c8f19ee1d7075e";

/// All ids, for the catalog.
pub const ALL: [(&str, &str); 22] = [
    ("READY", READY),
    ("STOPPING", STOPPING),
    ("CONFIG_RELOADED", CONFIG_RELOADED),
    ("CONFIG_REFUSED", CONFIG_REFUSED),
    ("PLATFORM_UP", PLATFORM_UP),
    ("PLATFORM_DEGRADED", PLATFORM_DEGRADED),
    ("PLATFORM_DOWN", PLATFORM_DOWN),
    ("HANDOFF_REQUESTED", HANDOFF_REQUESTED),
    ("HANDOFF_COMPLETED", HANDOFF_COMPLETED),
    ("HANDOFF_FAILED", HANDOFF_FAILED),
    ("HANDOFF_RESUMED", HANDOFF_RESUMED),
    ("TURN_FAILED", TURN_FAILED),
    ("REPLY_NOT_DELIVERED", REPLY_NOT_DELIVERED),
    ("REPLY_MAYBE_REPEATED", REPLY_MAYBE_REPEATED),
    ("CHAT_ENDED", CHAT_ENDED),
    ("PAIRING_ASKED", PAIRING_ASKED),
    ("DATABASE_LOCKED", DATABASE_LOCKED),
    ("DATABASE_FULL", DATABASE_FULL),
    ("INDEX_DAMAGED", INDEX_DAMAGED),
    ("CJK_INDEX_OFF", CJK_INDEX_OFF),
    ("AGENT_CRASHED", AGENT_CRASHED),
    ("GATEWAY_TOOK_OVER", GATEWAY_TOOK_OVER),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Command;

    use super::*;

    const CATALOG: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/packaging/catalog/hermesd.catalog"
    );

    /// The entries of the catalog by id, with header and body. Panics where journalctl only warns.
    fn entries() -> BTreeMap<String, (Vec<String>, String)> {
        let text = std::fs::read_to_string(CATALOG).expect("a catalog");
        let mut entries = BTreeMap::new();
        for entry in text.split("\n-- ").skip(1) {
            let (id, rest) = entry.split_once('\n').expect("an id on a line of its own");
            let (header, body) = rest.split_once("\n\n").expect("a header and a body");
            let header = header.lines().map(str::to_owned).collect();
            let old = entries.insert(id.to_owned(), (header, body.trim().to_owned()));
            assert!(old.is_none(), "{id} is there twice");
        }
        entries
    }

    #[test]
    fn the_catalog_explains_every_id_and_no_other() {
        let entries = entries();
        for (name, id) in ALL {
            assert!(
                id.len() == 32
                    && id
                        .bytes()
                        .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
            );
            let (header, body) = entries
                .get(id)
                .unwrap_or_else(|| panic!("{name} is not in the catalog"));
            let names = |key: &str| header.iter().any(|line| line.starts_with(key));
            for key in ["Subject: ", "Defined-By: hermesd"] {
                assert!(names(key), "{name} has no {key}");
            }
            assert!(body.len() > 80, "{name} is not explained");
        }
        assert_eq!(entries.len(), ALL.len(), "the catalog has unknown ids");
    }

    #[test]
    fn every_id_is_another() {
        let ids: std::collections::BTreeSet<_> = ALL.iter().map(|(_, id)| id).collect();
        assert_eq!(ids.len(), ALL.len());
    }

    /// Skipped if journalctl is not installed.
    #[test]
    fn journalctl_takes_the_catalog() {
        let root = tempfile::tempdir().expect("a directory");
        let place = root.path().join("usr/lib/systemd/catalog");
        std::fs::create_dir_all(&place).expect("a directory");
        std::fs::copy(CATALOG, place.join("hermesd.catalog")).expect("a copy");
        let under_root = |arguments: &[&str]| {
            let root = format!("--root={}", root.path().display());
            Command::new("journalctl")
                .arg(root)
                .args(arguments)
                .output()
        };
        let Ok(updated) = under_root(&["--update-catalog"]) else {
            return;
        };
        let said = String::from_utf8_lossy(&updated.stderr).into_owned();
        assert!(updated.status.success(), "{said}");
        let listed = under_root(&["--list-catalog"]).expect("a list");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for (name, id) in ALL {
            assert!(listed.contains(id), "{name} is not in {listed}; {said}");
        }
    }
}
