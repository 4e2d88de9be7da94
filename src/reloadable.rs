//! Holds a value that a reload replaces. Code that has already read the value continues with the old one.

use std::sync::{Arc, RwLock};

#[derive(Debug, Default)]
pub(crate) struct Reloadable<T>(RwLock<Arc<T>>);

impl<T> Reloadable<T> {
    pub(crate) fn new(value: T) -> Reloadable<T> {
        Reloadable(RwLock::new(Arc::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        let current = self.0.read();
        current.unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Returns the old value.
    pub(crate) fn set(&self, value: T) -> Arc<T> {
        let mut current = self.0.write().unwrap_or_else(|e| e.into_inner());
        std::mem::replace(&mut current, Arc::new(value))
    }
}
