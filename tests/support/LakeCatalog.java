import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetTable;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of tables of Spark's second interface, for tests: Parquet folders, one for each version
 * of a table. As in Delta, Spark hands it data frames to insert; as in Iceberg, it overwrites by a
 * filter. Spark's own compiler, Janino, makes it while a test runs: no lambdas, no generics to infer.
 */
public class LakeCatalog implements TableCatalog, SupportsNamespaces {
  private String name;
  private String root;
  private final Map tables = new TreeMap();
  private final List spaces = new ArrayList();

  public void initialize(String given, CaseInsensitiveStringMap options) {
    this.name = given;
    this.root = options.get("warehouse");
  }

  public String name() { return this.name; }

  public Identifier[] listTables(String[] namespace) { return new Identifier[0]; }

  public Table loadTable(Identifier ident) throws NoSuchTableException {
    Table found = (Table) this.tables.get(ident.toString());
    if (found == null) throw new NoSuchTableException(ident);
    return found;
  }

  public Table createTable(Identifier ident, StructType schema, Transform[] parts, Map properties) {
    String folder = this.root + "/" + ident.toString();
    LakeTable made = new LakeTable(ident.toString(), folder, schema, parts, new HashMap(properties));
    this.tables.put(ident.toString(), made);
    return made;
  }

  public Table createTable(
      Identifier ident,
      org.apache.spark.sql.connector.catalog.Column[] columns,
      Transform[] parts,
      Map properties) {
    StructType schema =
        org.apache.spark.sql.connector.catalog.CatalogV2Util.v2ColumnsToStructType(columns);
    return this.createTable(ident, schema, parts, properties);
  }

  public Table alterTable(Identifier ident, TableChange[] changes) throws NoSuchTableException {
    LakeTable table = (LakeTable) this.loadTable(ident);
    for (int i = 0; i < changes.length; i++) {
      TableChange.SetProperty change = (TableChange.SetProperty) changes[i];
      table.properties().put(change.property(), change.value());
    }
    return table;
  }

  public boolean dropTable(Identifier ident) { return this.tables.remove(ident.toString()) != null; }

  public void renameTable(Identifier from, Identifier to) {
    throw new UnsupportedOperationException("rename");
  }

  public String[][] listNamespaces() { return new String[0][]; }

  public String[][] listNamespaces(String[] above) { return new String[0][]; }

  public Map loadNamespaceMetadata(String[] space) { return Collections.EMPTY_MAP; }

  public boolean namespaceExists(String[] space) { return this.spaces.contains(space[0]); }

  public void createNamespace(String[] space, Map words) { this.spaces.add(space[0]); }

  public void alterNamespace(String[] space, NamespaceChange[] changes) {
    throw new UnsupportedOperationException("alter");
  }

  public boolean dropNamespace(String[] space, boolean all) { return this.spaces.remove(space[0]); }
}

class LakeTable implements SupportsRead, SupportsWrite {
  private final String name;
  private final String folder;
  private final StructType schema;
  private final Transform[] parts;
  private final Map properties;
  private int version = 0;

  LakeTable(String name, String folder, StructType schema, Transform[] parts, Map properties) {
    this.name = name;
    this.folder = folder + "-" + System.nanoTime();
    this.schema = schema;
    this.parts = parts;
    this.properties = properties;
  }

  public String name() { return this.name; }

  public StructType schema() { return this.schema; }

  public Transform[] partitioning() { return this.parts; }

  public Map properties() { return this.properties; }

  public Set capabilities() {
    return EnumSet.of(
        TableCapability.BATCH_READ,
        TableCapability.V1_BATCH_WRITE,
        TableCapability.OVERWRITE_BY_FILTER,
        TableCapability.TRUNCATE);
  }

  String path() { return this.folder + "/v" + this.version; }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    scala.collection.immutable.Seq paths = scala.collection.immutable.Nil$.MODULE$;
    if (this.version > 0) {
      paths = (scala.collection.immutable.Seq) paths.appended(this.path());
    }
    return new ParquetTable(
            this.name, SparkSession.active(), options, paths, scala.Option.apply(this.schema), null)
        .newScanBuilder(options);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new LakeWrite(this); }

  /** One version more: the rows that stay, and the new ones. */
  void insert(Dataset rows, Column gone) {
    Dataset all = rows;
    if (this.version > 0) {
      Dataset old = rows.sparkSession().read().schema(this.schema).parquet(this.path());
      Dataset kept = gone == null ? old : old.filter(functions.not(gone));
      all = kept.unionByName(rows);
    }
    all.write().parquet(this.folder + "/v" + (this.version + 1));
    this.version = this.version + 1;
    this.properties.put("version", "" + this.version);
  }
}

class LakeWrite implements SupportsOverwrite, V1Write, InsertableRelation {
  private final LakeTable table;
  private Column gone = null;

  LakeWrite(LakeTable table) { this.table = table; }

  public WriteBuilder overwrite(Filter[] filters) {
    this.gone = functions.lit(Boolean.TRUE);
    for (int i = 0; i < filters.length; i++) {
      if (filters[i] instanceof In) {
        In one = (In) filters[i];
        this.gone = this.gone.and(functions.col(one.attribute()).isin(one.values()));
      } else if (filters[i] instanceof EqualTo) {
        EqualTo one = (EqualTo) filters[i];
        this.gone = this.gone.and(functions.col(one.attribute()).equalTo(one.value()));
      }
    }
    return this;
  }

  public Write build() { return this; }

  public InsertableRelation toInsertableRelation() { return this; }

  public void insert(Dataset rows, boolean replace) { this.table.insert(rows, this.gone); }
}
