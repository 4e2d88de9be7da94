//! The services that an adapter gets.

use std::os::unix::fs::PermissionsExt;

use hermesd::events::Bus;
use hermesd::platform::AdapterContext;

use crate::support::Home;

#[tokio::test]
async fn a_cursor_belongs_to_one_account_of_one_platform() {
    let home = Home::new();
    let store = home.store();
    let context = |platform| {
        let path = home.path().to_owned();
        AdapterContext::new(platform, path, store.clone(), Bus::default())
    };
    let (telegram, slack) = (context("telegram"), context("slack"));
    telegram.set_cursor("bot", "42").await.unwrap();
    let cursor = telegram.cursor("bot").await.unwrap().expect("a cursor");
    assert_eq!(cursor.value, "42");
    assert_eq!(telegram.cursor("other").await.unwrap(), None);
    assert_eq!(slack.cursor("bot").await.unwrap(), None);
}

#[tokio::test]
async fn the_data_directory_is_private_and_the_adapters_own() {
    let home = Home::new();
    let store = home.store();
    let context = |platform| {
        let path = home.path().to_owned();
        AdapterContext::new(platform, path, store.clone(), Bus::default())
    };
    let matrix = context("matrix").data_directory().unwrap();
    assert!(matrix.starts_with(home.path()), "{matrix:?}");
    assert_ne!(matrix, context("slack").data_directory().unwrap());
    let mode = matrix.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}
