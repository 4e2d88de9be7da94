//! Handles a chat whose id has changed: its conversations, its role as the home and its access rules stay with it.

use std::sync::Arc;

use crate::domain::HomeChannel;
use crate::domain::Source;
use crate::inbound::Inner;
use crate::store::StoreError;
use crate::store::retry_while_busy;

impl Inner {
    pub(super) async fn chat_moved(
        self: &Arc<Self>,
        platform: &str,
        from: &str,
        to: &str,
    ) -> Result<(), StoreError> {
        let store = || self.store.move_chat(platform, from, to);
        if retry_while_busy(&self.stop, store).await? {
            tracing::info!(platform, from, to, "chat id changed");
        }
        let Some(home) = self.platforms.home(platform).filter(|h| h.chat_id == from) else {
            return Ok(());
        };
        let home = HomeChannel {
            chat_id: to.to_owned(),
            ..home
        };
        let rules = self.rules.get();
        let configured = rules.homes.get(platform).map(String::as_str);
        let choose = || self.store.choose_home(platform, &home, configured, None);
        retry_while_busy(&self.stop, choose).await?;
        tracing::info!(
            platform,
            chat = to,
            "home channel follows the changed chat id"
        );
        self.platforms.set_home(platform, home);
        Ok(())
    }

    /// The source with the former id of its chat, which settings may name. `None`: the id has never changed.
    pub(super) async fn before_move(&self, source: &Source) -> Result<Option<Source>, StoreError> {
        let moved = || self.store.moved_chats(&source.platform);
        let moved = retry_while_busy(&self.stop, moved).await?;
        let mut moved = moved.into_iter();
        let before = moved.find(|(_, to)| source.chat_id.as_ref() == Some(to));
        Ok(before.map(|(from, _)| Source {
            chat_id: Some(from),
            ..source.clone()
        }))
    }
}
