//! Hermes' index for Chinese, Japanese and Korean needs a tokenizer of its own. It is loaded where it can be trusted, and else
//! messages are written without it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::store::open::home_of;
use crate::support::{Daemon, Home, skipped, until};

const PARSER: &str = "20260101_090000_aaaaaa";

/// A tokenizer of that name which does what SQLite's own does.
const TOKENIZER: &str = r#"
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1
static fts5_api *api_of(sqlite3 *db) {
  fts5_api *api = 0;
  sqlite3_stmt *statement = 0;
  if (sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &statement, 0) == SQLITE_OK) {
    sqlite3_bind_pointer(statement, 1, (void *)&api, "fts5_api_ptr", 0);
    sqlite3_step(statement);
  }
  sqlite3_finalize(statement);
  return api;
}
int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *routines) {
  SQLITE_EXTENSION_INIT2(routines);
  fts5_api *api = api_of(db);
  fts5_tokenizer tokenizer;
  void *context = 0;
  (void)error;
  if (!api || api->xFindTokenizer(api, "unicode61", &context, &tokenizer) != SQLITE_OK) return SQLITE_ERROR;
  return api->xCreateTokenizer(api, "cjk_unicode61", context, &tokenizer, 0);
}
"#;

/// Where the header of the SQLite is that hermesd is built with.
fn headers() -> Option<PathBuf> {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let ran = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(["--filter-platform", &host, "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&ran.stdout).ok()?;
    let package = metadata["packages"]
        .as_array()?
        .iter()
        .find(|package| package["name"] == "libsqlite3-sys")?;
    let manifest = Path::new(package["manifest_path"].as_str()?);
    Some(manifest.parent()?.join("sqlite3"))
}

/// Builds the library into its place in the home.
fn build_library(home: &Home) -> Option<PathBuf> {
    home.write("lib/tokenizer.c", TOKENIZER);
    let library = home.path().join("lib/libfts5_cjk.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-I"])
        .arg(headers()?)
        .arg("-o")
        .arg(&library)
        .arg(home.path().join("lib/tokenizer.c"))
        .status();
    let mode = std::fs::Permissions::from_mode(0o755);
    (built.is_ok_and(|status| status.success()) && std::fs::set_permissions(&library, mode).is_ok())
        .then_some(library)
}

fn with_index() -> Home {
    let home = home_of("hermes-schema-30-cjk.db");
    let sql = "UPDATE sessions SET handoff_platform = 'local' WHERE id = ?1 AND handoff_state = 'pending'";
    assert_eq!(home.sqlite().execute(sql, [PARSER]).unwrap(), 1);
    home
}

fn number(home: &Home, sql: &str) -> i64 {
    home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn triggers(home: &Home) -> i64 {
    let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'messages_fts_cjk_*'";
    number(home, sql)
}

fn is_stale(home: &Home) -> bool {
    let sql = "SELECT count(*) FROM state_meta WHERE key = 'fts_cjk_stale' AND value = '1'";
    number(home, sql) == 1
}

fn handed_off(home: &Home) -> Daemon {
    let daemon = home.start();
    until("the handoff completes", || {
        let sql = "SELECT count(*) FROM sessions WHERE id = '20260101_090000_aaaaaa' AND handoff_state = 'completed'";
        (number(home, sql) == 1).then_some(())
    });
    daemon
}

#[test]
fn the_tokenizer_is_loaded_and_the_index_goes_on() {
    let home = with_index();
    if build_library(&home).is_none() {
        skipped("there is no C compiler to make a tokenizer with");
        return;
    }
    let indexed = "SELECT count(*) FROM messages_fts_cjk_docsize";
    let before = number(&home, indexed);
    let daemon = handed_off(&home);
    assert_eq!(
        number(&home, indexed),
        before + 2,
        "the notice and the reply"
    );
    assert_eq!(triggers(&home), 3);
    assert!(!is_stale(&home));
    assert!(!daemon.log().contains("WARN"), "{}", daemon.log());
    let found = home.hermesctl(&["doctor"]);
    assert!(!found.stdout.contains("CJK"), "{found:?}");
}

/// Messages are written without the index, and the log and doctor tell why.
fn goes_without(home: &Home, why: &str) {
    let daemon = handed_off(home);
    assert_eq!(triggers(home), 0);
    assert!(is_stale(home));
    let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'messages_fts_cjk'";
    assert_eq!(number(home, tables), 1, "the table stays");
    assert!(daemon.log().contains(why), "{}", daemon.log());
    let found = home.hermesctl(&["doctor"]);
    assert!(found.stdout.contains("optimize-storage"), "{found:?}");
    assert!(found.stdout.contains("is sound"), "{found:?}");
}

#[test]
fn without_its_tokenizer_the_index_is_put_out_of_use() {
    goes_without(&with_index(), "No such file");
    let home = with_index();
    home.write("config.yaml", "sessions:\n  cjk_fts: false\n");
    if build_library(&home).is_some() {
        goes_without(&home, "cjk_fts is off");
    }
}

#[test]
fn a_tokenizer_that_others_can_change_is_not_loaded() {
    let home = with_index();
    let Some(library) = build_library(&home) else {
        skipped("there is no C compiler to make a tokenizer with");
        return;
    };
    std::fs::set_permissions(library, std::fs::Permissions::from_mode(0o777)).unwrap();
    goes_without(&home, "can be changed by other users");
}

#[test]
fn an_index_that_appears_under_the_daemon_is_dealt_with() {
    let home = with_index();
    let sql = "SELECT group_concat(sql, ';' || char(10)) FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'messages_fts_cjk_*'";
    let made: String = home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap();
    let daemon = handed_off(&home);
    assert_eq!(triggers(&home), 0);
    // Hermes builds the index anew where the library is back.
    home.sqlite()
        .execute_batch(&format!(
            "BEGIN; DELETE FROM state_meta WHERE key = 'fts_cjk_stale'; {made}; COMMIT;"
        ))
        .unwrap();
    until("it is put out of use", || is_stale(&home).then_some(()));
    assert_eq!(triggers(&home), 0);
    let said = home.hermesctl(&["resume", PARSER]);
    assert_eq!(said.code, 0, "{said:?}");
    drop(daemon);
}
