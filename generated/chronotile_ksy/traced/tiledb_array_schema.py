# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_datatype
from chronotile_ksy.traced import tiledb_filter_pipeline
from enum import IntEnum
import collections


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbArraySchema(KaitaiStruct):
    """The payload of an array schema file, for format versions 1 to 23.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
    """

    class ArrayTypes(IntEnum):
        dense = 0
        sparse = 1

    class CurrentDomainTypes(IntEnum):
        nd_rectangle = 0

    class DataOrders(IntEnum):
        unordered_data = 0
        increasing_data = 1
        decreasing_data = 2

    class Layouts(IntEnum):
        row_major = 0
        col_major = 1
        global_order = 2
        unordered = 3
        hilbert = 4
    SEQ_FIELDS = ["version", "dups_allowed", "array_type", "tile_order", "cell_order", "capacity", "coords_filters", "offsets_filters", "validity_filters", "domain", "num_attributes", "attributes", "num_labels", "labels", "num_enumerations", "enumerations", "current_domain", "trailing"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbArraySchema, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['version']['start'] = self._io.pos()
        self.version = self._io.read_u4le()
        self._debug['version']['end'] = self._io.pos()
        if not self.version >= 1:
            raise kaitaistruct.ValidationLessThanError(1, self.version, self._io, u"/seq/0")
        if not self.version <= 23:
            raise kaitaistruct.ValidationGreaterThanError(23, self.version, self._io, u"/seq/0")
        if self.version >= 5:
            pass
            self._debug['dups_allowed']['start'] = self._io.pos()
            self.dups_allowed = self._io.read_u1()
            self._debug['dups_allowed']['end'] = self._io.pos()
            if not self.dups_allowed <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.dups_allowed, self._io, u"/seq/1")

        self._debug['array_type']['start'] = self._io.pos()
        self.array_type = KaitaiStream.resolve_enum(TiledbArraySchema.ArrayTypes, self._io.read_u1())
        self._debug['array_type']['end'] = self._io.pos()
        if not isinstance(self.array_type, TiledbArraySchema.ArrayTypes):
            raise kaitaistruct.ValidationNotInEnumError(self.array_type, self._io, u"/seq/2")
        self._debug['tile_order']['start'] = self._io.pos()
        self.tile_order = KaitaiStream.resolve_enum(TiledbArraySchema.Layouts, self._io.read_u1())
        self._debug['tile_order']['end'] = self._io.pos()
        if not isinstance(self.tile_order, TiledbArraySchema.Layouts):
            raise kaitaistruct.ValidationNotInEnumError(self.tile_order, self._io, u"/seq/3")
        self._debug['cell_order']['start'] = self._io.pos()
        self.cell_order = KaitaiStream.resolve_enum(TiledbArraySchema.Layouts, self._io.read_u1())
        self._debug['cell_order']['end'] = self._io.pos()
        if not isinstance(self.cell_order, TiledbArraySchema.Layouts):
            raise kaitaistruct.ValidationNotInEnumError(self.cell_order, self._io, u"/seq/4")
        self._debug['capacity']['start'] = self._io.pos()
        self.capacity = self._io.read_u8le()
        self._debug['capacity']['end'] = self._io.pos()
        self._debug['coords_filters']['start'] = self._io.pos()
        self.coords_filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
        self.coords_filters._read()
        self._debug['coords_filters']['end'] = self._io.pos()
        self._debug['offsets_filters']['start'] = self._io.pos()
        self.offsets_filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
        self.offsets_filters._read()
        self._debug['offsets_filters']['end'] = self._io.pos()
        if self.version >= 7:
            pass
            self._debug['validity_filters']['start'] = self._io.pos()
            self.validity_filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
            self.validity_filters._read()
            self._debug['validity_filters']['end'] = self._io.pos()

        self._debug['domain']['start'] = self._io.pos()
        self.domain = TiledbArraySchema.ArrayDomain(self.version, self._io, self, self._root)
        self.domain._read()
        self._debug['domain']['end'] = self._io.pos()
        self._debug['num_attributes']['start'] = self._io.pos()
        self.num_attributes = self._io.read_u4le()
        self._debug['num_attributes']['end'] = self._io.pos()
        if not self.num_attributes <= (self._io.size() - self._io.pos()) // 17:
            raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 17, self.num_attributes, self._io, u"/seq/10")
        self._debug['attributes']['start'] = self._io.pos()
        self._debug['attributes']['arr'] = []
        self.attributes = []
        for i in range(self.num_attributes):
            self._debug['attributes']['arr'].append({'start': self._io.pos()})
            _t_attributes = TiledbArraySchema.Attribute(self.version, self._io, self, self._root)
            try:
                _t_attributes._read()
            finally:
                self.attributes.append(_t_attributes)
            self._debug['attributes']['arr'][i]['end'] = self._io.pos()

        self._debug['attributes']['end'] = self._io.pos()
        if self.version >= 18:
            pass
            self._debug['num_labels']['start'] = self._io.pos()
            self.num_labels = self._io.read_u4le()
            self._debug['num_labels']['end'] = self._io.pos()
            if not self.num_labels <= (self._io.size() - self._io.pos()) // 28:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 28, self.num_labels, self._io, u"/seq/12")

        if self.version >= 18:
            pass
            self._debug['labels']['start'] = self._io.pos()
            self._debug['labels']['arr'] = []
            self.labels = []
            for i in range(self.num_labels):
                self._debug['labels']['arr'].append({'start': self._io.pos()})
                _t_labels = TiledbArraySchema.DimensionLabel(self._io, self, self._root)
                try:
                    _t_labels._read()
                finally:
                    self.labels.append(_t_labels)
                self._debug['labels']['arr'][i]['end'] = self._io.pos()

            self._debug['labels']['end'] = self._io.pos()

        if self.version >= 20:
            pass
            self._debug['num_enumerations']['start'] = self._io.pos()
            self.num_enumerations = self._io.read_u4le()
            self._debug['num_enumerations']['end'] = self._io.pos()
            if not self.num_enumerations <= (self._io.size() - self._io.pos()) // 8:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 8, self.num_enumerations, self._io, u"/seq/14")

        if self.version >= 20:
            pass
            self._debug['enumerations']['start'] = self._io.pos()
            self._debug['enumerations']['arr'] = []
            self.enumerations = []
            for i in range(self.num_enumerations):
                self._debug['enumerations']['arr'].append({'start': self._io.pos()})
                _t_enumerations = TiledbArraySchema.EnumerationPath(self._io, self, self._root)
                try:
                    _t_enumerations._read()
                finally:
                    self.enumerations.append(_t_enumerations)
                self._debug['enumerations']['arr'][i]['end'] = self._io.pos()

            self._debug['enumerations']['end'] = self._io.pos()

        if self.version >= 22:
            pass
            self._debug['current_domain']['start'] = self._io.pos()
            self.current_domain = TiledbArraySchema.CurrentDomain(self._io, self, self._root)
            self.current_domain._read()
            self._debug['current_domain']['end'] = self._io.pos()

        self._debug['trailing']['start'] = self._io.pos()
        self.trailing = self._io.read_bytes_full()
        self._debug['trailing']['end'] = self._io.pos()
        if not self.trailing == b"":
            raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/seq/17")


    def _fetch_instances(self):
        pass
        if self.version >= 5:
            pass

        self.coords_filters._fetch_instances()
        self.offsets_filters._fetch_instances()
        if self.version >= 7:
            pass
            self.validity_filters._fetch_instances()

        self.domain._fetch_instances()
        for i in range(len(self.attributes)):
            pass
            self.attributes[i]._fetch_instances()

        if self.version >= 18:
            pass

        if self.version >= 18:
            pass
            for i in range(len(self.labels)):
                pass
                self.labels[i]._fetch_instances()


        if self.version >= 20:
            pass

        if self.version >= 20:
            pass
            for i in range(len(self.enumerations)):
                pass
                self.enumerations[i]._fetch_instances()


        if self.version >= 22:
            pass
            self.current_domain._fetch_instances()


    class ArrayDomain(KaitaiStruct):
        """The dimensions. Before version 5 they share one datatype.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#domain
        """
        SEQ_FIELDS = ["datatype", "num_dimensions", "dimensions"]
        def __init__(self, version, _io, _parent=None, _root=None):
            super(TiledbArraySchema.ArrayDomain, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.version = version
            self._debug = collections.defaultdict(dict)

        def _read(self):
            if self.version < 5:
                pass
                self._debug['datatype']['start'] = self._io.pos()
                self.datatype = tiledb_datatype.TiledbDatatype(self._io)
                self.datatype._read()
                self._debug['datatype']['end'] = self._io.pos()

            self._debug['num_dimensions']['start'] = self._io.pos()
            self.num_dimensions = self._io.read_u4le()
            self._debug['num_dimensions']['end'] = self._io.pos()
            if not self.num_dimensions >= 1:
                raise kaitaistruct.ValidationLessThanError(1, self.num_dimensions, self._io, u"/types/array_domain/seq/1")
            if not self.num_dimensions <= (self._io.size() - self._io.pos()) // 5:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 5, self.num_dimensions, self._io, u"/types/array_domain/seq/1")
            self._debug['dimensions']['start'] = self._io.pos()
            self._debug['dimensions']['arr'] = []
            self.dimensions = []
            for i in range(self.num_dimensions):
                self._debug['dimensions']['arr'].append({'start': self._io.pos()})
                _t_dimensions = TiledbArraySchema.Dimension(self.version, (self.datatype.len_value if self.version < 5 else 0), self._io, self, self._root)
                try:
                    _t_dimensions._read()
                finally:
                    self.dimensions.append(_t_dimensions)
                self._debug['dimensions']['arr'][i]['end'] = self._io.pos()

            self._debug['dimensions']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass
            if self.version < 5:
                pass
                self.datatype._fetch_instances()

            for i in range(len(self.dimensions)):
                pass
                self.dimensions[i]._fetch_instances()



    class Attribute(KaitaiStruct):
        """One attribute.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#attribute
        """
        SEQ_FIELDS = ["len_name", "name", "datatype", "num_cell_values", "filters", "len_fill_value", "fill_value", "nullable", "fill_value_validity", "order", "len_enumeration_name", "enumeration_name"]
        def __init__(self, version, _io, _parent=None, _root=None):
            super(TiledbArraySchema.Attribute, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.version = version
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['len_name']['start'] = self._io.pos()
            self.len_name = self._io.read_u4le()
            self._debug['len_name']['end'] = self._io.pos()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/attribute/seq/0")
            self._debug['name']['start'] = self._io.pos()
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self._debug['name']['end'] = self._io.pos()
            self._debug['datatype']['start'] = self._io.pos()
            self.datatype = tiledb_datatype.TiledbDatatype(self._io)
            self.datatype._read()
            self._debug['datatype']['end'] = self._io.pos()
            self._debug['num_cell_values']['start'] = self._io.pos()
            self.num_cell_values = self._io.read_u4le()
            self._debug['num_cell_values']['end'] = self._io.pos()
            self._debug['filters']['start'] = self._io.pos()
            self.filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
            self.filters._read()
            self._debug['filters']['end'] = self._io.pos()
            if self.version >= 6:
                pass
                self._debug['len_fill_value']['start'] = self._io.pos()
                self.len_fill_value = self._io.read_u8le()
                self._debug['len_fill_value']['end'] = self._io.pos()
                if not self.len_fill_value <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_fill_value, self._io, u"/types/attribute/seq/5")

            if self.version >= 6:
                pass
                self._debug['fill_value']['start'] = self._io.pos()
                self.fill_value = self._io.read_bytes(self.len_fill_value)
                self._debug['fill_value']['end'] = self._io.pos()

            if self.version >= 7:
                pass
                self._debug['nullable']['start'] = self._io.pos()
                self.nullable = self._io.read_u1()
                self._debug['nullable']['end'] = self._io.pos()
                if not self.nullable <= 1:
                    raise kaitaistruct.ValidationGreaterThanError(1, self.nullable, self._io, u"/types/attribute/seq/7")

            if self.version >= 7:
                pass
                self._debug['fill_value_validity']['start'] = self._io.pos()
                self.fill_value_validity = self._io.read_u1()
                self._debug['fill_value_validity']['end'] = self._io.pos()

            if self.version >= 17:
                pass
                self._debug['order']['start'] = self._io.pos()
                self.order = KaitaiStream.resolve_enum(TiledbArraySchema.DataOrders, self._io.read_u1())
                self._debug['order']['end'] = self._io.pos()
                if not isinstance(self.order, TiledbArraySchema.DataOrders):
                    raise kaitaistruct.ValidationNotInEnumError(self.order, self._io, u"/types/attribute/seq/9")

            if self.version >= 20:
                pass
                self._debug['len_enumeration_name']['start'] = self._io.pos()
                self.len_enumeration_name = self._io.read_u4le()
                self._debug['len_enumeration_name']['end'] = self._io.pos()
                if not self.len_enumeration_name <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_enumeration_name, self._io, u"/types/attribute/seq/10")

            if self.version >= 20:
                pass
                self._debug['enumeration_name']['start'] = self._io.pos()
                self.enumeration_name = (self._io.read_bytes(self.len_enumeration_name)).decode(u"UTF-8")
                self._debug['enumeration_name']['end'] = self._io.pos()



        def _fetch_instances(self):
            pass
            self.datatype._fetch_instances()
            self.filters._fetch_instances()
            if self.version >= 6:
                pass

            if self.version >= 6:
                pass

            if self.version >= 7:
                pass

            if self.version >= 7:
                pass

            if self.version >= 17:
                pass

            if self.version >= 20:
                pass

            if self.version >= 20:
                pass


        @property
        def is_nullable(self):
            if hasattr(self, '_m_is_nullable'):
                return self._m_is_nullable

            self._m_is_nullable = (self.nullable != 0 if self.version >= 7 else False)
            return getattr(self, '_m_is_nullable', None)


    class CurrentDomain(KaitaiStruct):
        """The part of the domain that is in use, with a version of its own.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#current-domain
        """
        SEQ_FIELDS = ["version", "empty", "domain_type", "ranges"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArraySchema.CurrentDomain, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['version']['start'] = self._io.pos()
            self.version = self._io.read_u4le()
            self._debug['version']['end'] = self._io.pos()
            if not self.version <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.version, self._io, u"/types/current_domain/seq/0")
            self._debug['empty']['start'] = self._io.pos()
            self.empty = self._io.read_u1()
            self._debug['empty']['end'] = self._io.pos()
            if not self.empty <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.empty, self._io, u"/types/current_domain/seq/1")
            if (not (self.is_empty)):
                pass
                self._debug['domain_type']['start'] = self._io.pos()
                self.domain_type = KaitaiStream.resolve_enum(TiledbArraySchema.CurrentDomainTypes, self._io.read_u1())
                self._debug['domain_type']['end'] = self._io.pos()
                if not isinstance(self.domain_type, TiledbArraySchema.CurrentDomainTypes):
                    raise kaitaistruct.ValidationNotInEnumError(self.domain_type, self._io, u"/types/current_domain/seq/2")

            if (not (self.is_empty)):
                pass
                self._debug['ranges']['start'] = self._io.pos()
                self._debug['ranges']['arr'] = []
                self.ranges = []
                for i in range(self._root.domain.num_dimensions):
                    self._debug['ranges']['arr'].append({'start': self._io.pos()})
                    _t_ranges = TiledbArraySchema.DimensionRange(self._root.domain.dimensions[i].len_coordinate, self._io, self, self._root)
                    try:
                        _t_ranges._read()
                    finally:
                        self.ranges.append(_t_ranges)
                    self._debug['ranges']['arr'][i]['end'] = self._io.pos()

                self._debug['ranges']['end'] = self._io.pos()



        def _fetch_instances(self):
            pass
            if (not (self.is_empty)):
                pass

            if (not (self.is_empty)):
                pass
                for i in range(len(self.ranges)):
                    pass
                    self.ranges[i]._fetch_instances()



        @property
        def is_empty(self):
            if hasattr(self, '_m_is_empty'):
                return self._m_is_empty

            self._m_is_empty = self.empty != 0
            return getattr(self, '_m_is_empty', None)


    class Dimension(KaitaiStruct):
        """One dimension, its domain and its tile extent.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#dimension
        """
        SEQ_FIELDS = ["len_name", "name", "datatype", "num_cell_values", "filters", "len_domain_field", "domain", "null_tile_extent", "tile_extent"]
        def __init__(self, version, len_shared_value, _io, _parent=None, _root=None):
            super(TiledbArraySchema.Dimension, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.version = version
            self.len_shared_value = len_shared_value
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['len_name']['start'] = self._io.pos()
            self.len_name = self._io.read_u4le()
            self._debug['len_name']['end'] = self._io.pos()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/dimension/seq/0")
            self._debug['name']['start'] = self._io.pos()
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self._debug['name']['end'] = self._io.pos()
            if self.version >= 5:
                pass
                self._debug['datatype']['start'] = self._io.pos()
                self.datatype = tiledb_datatype.TiledbDatatype(self._io)
                self.datatype._read()
                self._debug['datatype']['end'] = self._io.pos()

            if self.version >= 5:
                pass
                self._debug['num_cell_values']['start'] = self._io.pos()
                self.num_cell_values = self._io.read_u4le()
                self._debug['num_cell_values']['end'] = self._io.pos()

            if self.version >= 5:
                pass
                self._debug['filters']['start'] = self._io.pos()
                self.filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
                self.filters._read()
                self._debug['filters']['end'] = self._io.pos()

            if self.version >= 5:
                pass
                self._debug['len_domain_field']['start'] = self._io.pos()
                self.len_domain_field = self._io.read_u8le()
                self._debug['len_domain_field']['end'] = self._io.pos()
                if not self.len_domain_field <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_domain_field, self._io, u"/types/dimension/seq/5")

            self._debug['domain']['start'] = self._io.pos()
            self.domain = self._io.read_bytes(self.len_domain)
            self._debug['domain']['end'] = self._io.pos()
            self._debug['null_tile_extent']['start'] = self._io.pos()
            self.null_tile_extent = self._io.read_u1()
            self._debug['null_tile_extent']['end'] = self._io.pos()
            if not self.null_tile_extent <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.null_tile_extent, self._io, u"/types/dimension/seq/7")
            if (not (self.is_null_tile_extent)):
                pass
                self._debug['tile_extent']['start'] = self._io.pos()
                self.tile_extent = self._io.read_bytes(self.len_value)
                self._debug['tile_extent']['end'] = self._io.pos()



        def _fetch_instances(self):
            pass
            if self.version >= 5:
                pass
                self.datatype._fetch_instances()

            if self.version >= 5:
                pass

            if self.version >= 5:
                pass
                self.filters._fetch_instances()

            if self.version >= 5:
                pass

            if (not (self.is_null_tile_extent)):
                pass


        @property
        def is_null_tile_extent(self):
            if hasattr(self, '_m_is_null_tile_extent'):
                return self._m_is_null_tile_extent

            self._m_is_null_tile_extent = self.null_tile_extent != 0
            return getattr(self, '_m_is_null_tile_extent', None)

        @property
        def len_coordinate(self):
            """Bytes of a coordinate; 0 where they vary in length."""
            if hasattr(self, '_m_len_coordinate'):
                return self._m_len_coordinate

            self._m_len_coordinate = (self.len_value if self.version < 5 else (0 if self.num_cell_values == 4294967295 else self.num_cell_values * self.len_value))
            return getattr(self, '_m_len_coordinate', None)

        @property
        def len_domain(self):
            if hasattr(self, '_m_len_domain'):
                return self._m_len_domain

            self._m_len_domain = (self.len_domain_field if self.version >= 5 else 2 * self.len_shared_value)
            return getattr(self, '_m_len_domain', None)

        @property
        def len_value(self):
            if hasattr(self, '_m_len_value'):
                return self._m_len_value

            self._m_len_value = (self.datatype.len_value if self.version >= 5 else self.len_shared_value)
            return getattr(self, '_m_len_value', None)


    class DimensionLabel(KaitaiStruct):
        """A label on a dimension. The order of the fields is the engine's, which is
        not that of the format's page.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/sm/array_schema/dimension_label.cc
        """
        SEQ_FIELDS = ["dimension_index", "len_name", "name", "relative_uri", "len_uri", "uri", "len_attribute_name", "attribute_name", "order", "datatype", "num_cell_values", "external"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArraySchema.DimensionLabel, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['dimension_index']['start'] = self._io.pos()
            self.dimension_index = self._io.read_u4le()
            self._debug['dimension_index']['end'] = self._io.pos()
            self._debug['len_name']['start'] = self._io.pos()
            self.len_name = self._io.read_u4le()
            self._debug['len_name']['end'] = self._io.pos()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/dimension_label/seq/1")
            self._debug['name']['start'] = self._io.pos()
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self._debug['name']['end'] = self._io.pos()
            self._debug['relative_uri']['start'] = self._io.pos()
            self.relative_uri = self._io.read_u1()
            self._debug['relative_uri']['end'] = self._io.pos()
            if not self.relative_uri <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.relative_uri, self._io, u"/types/dimension_label/seq/3")
            self._debug['len_uri']['start'] = self._io.pos()
            self.len_uri = self._io.read_u8le()
            self._debug['len_uri']['end'] = self._io.pos()
            if not self.len_uri <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_uri, self._io, u"/types/dimension_label/seq/4")
            self._debug['uri']['start'] = self._io.pos()
            self.uri = (self._io.read_bytes(self.len_uri)).decode(u"UTF-8")
            self._debug['uri']['end'] = self._io.pos()
            self._debug['len_attribute_name']['start'] = self._io.pos()
            self.len_attribute_name = self._io.read_u4le()
            self._debug['len_attribute_name']['end'] = self._io.pos()
            if not self.len_attribute_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_attribute_name, self._io, u"/types/dimension_label/seq/6")
            self._debug['attribute_name']['start'] = self._io.pos()
            self.attribute_name = (self._io.read_bytes(self.len_attribute_name)).decode(u"UTF-8")
            self._debug['attribute_name']['end'] = self._io.pos()
            self._debug['order']['start'] = self._io.pos()
            self.order = KaitaiStream.resolve_enum(TiledbArraySchema.DataOrders, self._io.read_u1())
            self._debug['order']['end'] = self._io.pos()
            if not isinstance(self.order, TiledbArraySchema.DataOrders):
                raise kaitaistruct.ValidationNotInEnumError(self.order, self._io, u"/types/dimension_label/seq/8")
            self._debug['datatype']['start'] = self._io.pos()
            self.datatype = tiledb_datatype.TiledbDatatype(self._io)
            self.datatype._read()
            self._debug['datatype']['end'] = self._io.pos()
            self._debug['num_cell_values']['start'] = self._io.pos()
            self.num_cell_values = self._io.read_u4le()
            self._debug['num_cell_values']['end'] = self._io.pos()
            self._debug['external']['start'] = self._io.pos()
            self.external = self._io.read_u1()
            self._debug['external']['end'] = self._io.pos()
            if not self.external <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.external, self._io, u"/types/dimension_label/seq/11")


        def _fetch_instances(self):
            pass
            self.datatype._fetch_instances()

        @property
        def is_external(self):
            if hasattr(self, '_m_is_external'):
                return self._m_is_external

            self._m_is_external = self.external != 0
            return getattr(self, '_m_is_external', None)

        @property
        def is_relative_uri(self):
            if hasattr(self, '_m_is_relative_uri'):
                return self._m_is_relative_uri

            self._m_is_relative_uri = self.relative_uri != 0
            return getattr(self, '_m_is_relative_uri', None)


    class DimensionRange(KaitaiStruct):
        """The least and the largest coordinate on one dimension.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#mbr
        """
        SEQ_FIELDS = ["len_both", "len_least", "least", "largest"]
        def __init__(self, len_coordinate, _io, _parent=None, _root=None):
            super(TiledbArraySchema.DimensionRange, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.len_coordinate = len_coordinate
            self._debug = collections.defaultdict(dict)

        def _read(self):
            if self.len_coordinate == 0:
                pass
                self._debug['len_both']['start'] = self._io.pos()
                self.len_both = self._io.read_u8le()
                self._debug['len_both']['end'] = self._io.pos()
                if not self.len_both <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_both, self._io, u"/types/dimension_range/seq/0")

            if self.len_coordinate == 0:
                pass
                self._debug['len_least']['start'] = self._io.pos()
                self.len_least = self._io.read_u8le()
                self._debug['len_least']['end'] = self._io.pos()
                if not self.len_least <= self.len_both:
                    raise kaitaistruct.ValidationGreaterThanError(self.len_both, self.len_least, self._io, u"/types/dimension_range/seq/1")

            self._debug['least']['start'] = self._io.pos()
            self.least = self._io.read_bytes((self.len_least if self.len_coordinate == 0 else self.len_coordinate))
            self._debug['least']['end'] = self._io.pos()
            self._debug['largest']['start'] = self._io.pos()
            self.largest = self._io.read_bytes((self.len_both - self.len_least if self.len_coordinate == 0 else self.len_coordinate))
            self._debug['largest']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass
            if self.len_coordinate == 0:
                pass

            if self.len_coordinate == 0:
                pass



    class EnumerationPath(KaitaiStruct):
        """An enumeration, and the file that holds its labels.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
        """
        SEQ_FIELDS = ["len_name", "name", "len_file_name", "file_name"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArraySchema.EnumerationPath, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['len_name']['start'] = self._io.pos()
            self.len_name = self._io.read_u4le()
            self._debug['len_name']['end'] = self._io.pos()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/enumeration_path/seq/0")
            self._debug['name']['start'] = self._io.pos()
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self._debug['name']['end'] = self._io.pos()
            self._debug['len_file_name']['start'] = self._io.pos()
            self.len_file_name = self._io.read_u4le()
            self._debug['len_file_name']['end'] = self._io.pos()
            if not self.len_file_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_file_name, self._io, u"/types/enumeration_path/seq/2")
            self._debug['file_name']['start'] = self._io.pos()
            self.file_name = (self._io.read_bytes(self.len_file_name)).decode(u"UTF-8")
            self._debug['file_name']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass


    @property
    def is_dups_allowed(self):
        if hasattr(self, '_m_is_dups_allowed'):
            return self._m_is_dups_allowed

        self._m_is_dups_allowed = (self.dups_allowed != 0 if self.version >= 5 else False)
        return getattr(self, '_m_is_dups_allowed', None)


