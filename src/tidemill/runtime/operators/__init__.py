"""One class per kind of operator; each works on whole batches."""
