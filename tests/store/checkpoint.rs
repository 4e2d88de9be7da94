//! The write-ahead log reaches the database file by itself: when nobody writes, and also when somebody never stops.

use hermesd::platform::local;
use hermesd::store::Store;

use crate::support::{Home, until};

/// A hundred kilobytes, in two tables.
async fn write_some(store: &Store) {
    let source = local::source("home", None);
    let text = "x".repeat(100_000);
    store
        .say_local("agent:main:local:dm:home", &source, &text)
        .await
        .unwrap();
}

fn database_size(home: &Home) -> u64 {
    home.path().join("state.db").metadata().unwrap().len()
}

#[tokio::test]
async fn a_log_that_is_worth_it_is_brought_in_when_nobody_writes() {
    let home = Home::new();
    let store = home.store();
    for _ in 0..40 {
        write_some(&store).await;
    }
    until("what was written is in the database", || {
        (database_size(&home) > 8_000_000).then_some(())
    });
}

#[tokio::test]
async fn a_long_log_is_brought_in_although_somebody_writes() {
    let home = Home::new();
    let store = home.store();
    // Without a pause: three times what the log may grow to before it counts as long.
    for _ in 0..500 {
        write_some(&store).await;
        if database_size(&home) > 20_000_000 {
            return;
        }
    }
    panic!("a hundred megabytes were written, and none of them is in the database");
}
