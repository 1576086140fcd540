"""The paper's tables and figures as runnable studies, each printed beside the paper's own figures."""
