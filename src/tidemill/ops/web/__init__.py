"""The web page of a driver: plain files, which ask the REST server for everything they show."""
