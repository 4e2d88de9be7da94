//! Handles `session.list`, `.show`, `.transcript`, `.search`, `.rename` and `.resume`.

use crate::control::ControlContext;
use crate::control::handlers::{Answer, LONGEST_LIST, USUAL_LIST, answer};
use crate::protocol::{
    ResumedView, SessionList, SessionRename, SessionResume, SessionSearch, TranscriptWish,
};
use crate::sessions;
use crate::sessions::resolve;
use crate::store::SessionFilter;
use crate::views;

pub(super) async fn list(context: &ControlContext, wish: SessionList) -> Answer {
    let limit = wish.limit.unwrap_or(USUAL_LIST).min(LONGEST_LIST);
    let sessions = context
        .store
        .list_sessions(SessionFilter {
            source: wish.source,
            live: wish.live,
            limit,
        })
        .await?;
    answer(&sessions.iter().map(views::session).collect::<Vec<_>>())
}

pub(super) fn show(context: &ControlContext, name: &str) -> Answer {
    answer(&views::session(&resolve(&context.store, name)?))
}

pub(super) async fn transcript(context: &ControlContext, wish: TranscriptWish) -> Answer {
    let session = resolve(&context.store, &wish.session)?;
    let (id, store) = (session.id.clone(), &context.store);
    // The page is cut in the reading thread, so that only the page is copied out of it.
    let page = store.with_transcript(&id, move |transcript| {
        views::transcript(&session, &transcript, &wish)
    });
    answer(&page.await?)
}

pub(super) async fn search(context: &ControlContext, wish: SessionSearch) -> Answer {
    let limit = wish.limit.unwrap_or(USUAL_LIST).min(LONGEST_LIST);
    let hits = context.store.search(&wish.words, limit).await?;
    answer(&hits.iter().map(views::hit).collect::<Vec<_>>())
}

pub(super) async fn rename(context: &ControlContext, wish: SessionRename) -> Answer {
    context.terminals.ensure_row(&wish.session).await?;
    let session = sessions::rename(&context.store, &wish.session, &wish.title).await?;
    answer(&views::session(&session))
}

pub(super) async fn resume(context: &ControlContext, wish: SessionResume) -> Answer {
    let (session, came_from) = context.terminals.resume(wish.session.as_deref()).await?;
    answer(&ResumedView {
        session: views::session(&session),
        came_from,
    })
}
